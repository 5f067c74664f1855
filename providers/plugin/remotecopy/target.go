package remotecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/fleet"
	"github.com/manent/action/providers/api/host/payload"
)

// anyDigest stands for whatever a release holds.
const anyDigest = "any"

// target is one machine while a call lasts.
type target struct {
	host.Host
	job
	machine fleet.Machine
}

// progress is how far a release has got on a target, as look.sh says it.
type progress struct {
	stage   string
	current string // the release that is current, "" for none
}

func (t target) look(ctx context.Context) (progress, error) {
	out, err := t.script(ctx, "look", lookScript, nil, t.dest, t.version, t.digest, t.step)
	if err != nil {
		return progress{}, err
	}
	stage, current, _ := strings.Cut(strings.TrimRight(out, "\n"), " ")
	switch stage {
	case "absent", "copied", "switched", "restarted", "done":
		return progress{stage, current}, nil
	}
	return progress{}, unexpected("look", out)
}

// unexpected is the fault of an answer that no script gives.
func unexpected(op, out string) error {
	return &providers.Fault{
		Op: op, Kind: providers.Unknown, Err: fmt.Errorf("unexpected answer %q", host.Tail([]byte(out))),
		Hint: "the login scripts of the user must not print anything",
	}
}

// deploy does what is not done yet.
func (t target) deploy(ctx context.Context, files *payload.Source, keep int, restart []string, say func(string)) error {
	p, err := t.look(ctx)
	if err != nil {
		return err
	}
	if p.stage == "done" {
		say("release " + t.version + " is current already")
		return nil
	}
	if p.stage == "absent" {
		if err := t.put(ctx, files); err != nil {
			return err
		}
		say(fmt.Sprintf("copied release %s: %d files and folders, %d bytes", t.version, files.Count, files.Size))
	}
	args := append([]string{t.dest, t.version, t.digest, t.step, strconv.Itoa(keep)}, restart...)
	out, err := t.script(ctx, "switch", switchScript, nil, args...)
	say(out)
	if err != nil {
		return err
	}
	say("release " + t.version + " is current")
	return nil
}

// put sends the files, read again from the source: what has changed there
// since it was looked at is refused by the target's own comparison.
func (t target) put(ctx context.Context, files *payload.Source) error {
	reader, writer := io.Pipe()
	broken := make(chan error, 1)
	go func() {
		err := files.WriteTar(writer)
		_ = writer.CloseWithError(err)
		broken <- err
	}()
	_, err := t.script(ctx, "copy", putScript, reader, t.dest, t.version, t.digest)
	_ = reader.CloseWithError(errStopped)
	if lost := <-broken; lost != nil && !errors.Is(lost, errStopped) && !errors.Is(lost, io.ErrClosedPipe) {
		return &providers.Fault{Op: "read the source", Kind: providers.Invalid, Err: lost}
	}
	return err
}

var errStopped = errors.New("the target stopped reading")

// ready is "" or what is missing.
func (t target) ready(ctx context.Context, listen string) (reason string, err error) {
	p, err := t.look(ctx)
	switch {
	case err != nil:
		return "", err
	case p.stage == "switched":
		return "release " + t.version + " is current, but was not restarted", nil
	case p.stage != "restarted" && p.stage != "done":
		return fmt.Sprintf("release %q is current, expected %s as it was copied", p.current, t.version), nil
	}
	return accepts(ctx, t, t.machine, listen)
}

// accepts is "" or that nothing accepts at the target's port, if it has one.
// That the machine answers at all was seen when it was connected to.
func accepts(ctx context.Context, h host.Host, m fleet.Machine, listen string) (reason string, err error) {
	if m.Port == 0 {
		return "", nil
	}
	return fleet.Accepts(ctx, h, listen, m.Port)
}

// script runs one of the scripts, and reads its exit code.
func (t target) script(ctx context.Context, op, text string, input io.Reader, args ...string) (string, error) {
	c := host.Command{Args: append([]string{"sh", "-c", text, "manent-" + op}, args...), Input: input}
	res, err := t.Run(ctx, c)
	if err != nil {
		return "", err
	}
	out, said := string(res.Stdout), host.Tail(res.Stderr)
	kind, hint := providers.Invalid, ""
	switch res.Exit {
	case 0:
		return out, nil
	case 22:
		kind = providers.Unavailable
	case 23, 27:
		kind = providers.Unknown
	case 26:
		op, said = "restart", said+": "+host.Tail(res.Stdout)
		hint = "the release is current on this target; it has no traffic, and a repeated call restarts it again"
	case 127:
		hint = "the target needs sh, tar, cmp, flock, and GNU's coreutils and findutils"
	case 28:
		hint = "install it there, or name it in restart with its whole path"
	}
	switch {
	case strings.Contains(said, "Permission denied"):
		kind, hint = providers.Denied, "the user has to be allowed to write "+t.dest
	case strings.Contains(said, "No space left"):
		hint = "make room in " + t.dest + "; nothing there was changed"
	}
	if said == "" {
		said = fmt.Sprintf("exit code %d", res.Exit)
	}
	return out, &providers.Fault{Op: op, Kind: kind, Err: errors.New(said), Hint: hint}
}
