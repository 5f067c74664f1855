package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/engine"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/fleet"
)

// target is one machine while a call lasts.
type target struct {
	job
	host     host.Host
	on       engine.Engine
	machine  fleet.Machine
	settings Settings
}

func label(c engine.Container, key string) string { return c.Config.Labels["manent."+key] }

// resolve is the digest that the tag has by now; or the one that this step has
// run already.
func (t target) resolve(ctx context.Context) (string, error) {
	c, there, err := t.look(ctx)
	if err != nil {
		return "", err
	}
	if there && label(c, "step") == t.step && label(c, "version") == t.version && c.Running() {
		return label(c, "digest"), nil
	}
	if _, err := t.on.Call(ctx, "pull", t.image); err != nil {
		return "", err
	}
	return t.on.Digest(ctx, t.image, t.repository)
}

// deploy does what is not done yet.
func (t target) deploy(ctx context.Context, secrets []string, say func(string)) error {
	c, there, err := t.look(ctx)
	if err != nil {
		return err
	}
	if there && label(c, "step") == t.step && label(c, "digest") == t.digest && c.Running() {
		say("container " + t.container + " runs " + t.version + " already")
		return nil
	}
	image := t.repository + "@" + t.digest
	var images []engine.Image
	if err := t.on.Inspect(ctx, "image", image, &images); err != nil { // then the pull says what is wrong
		if _, err := t.on.Call(ctx, "pull", image); err != nil {
			return err
		}
		say("pulled " + image)
	}
	if there {
		if err := t.remove(ctx, c); err != nil {
			return err
		}
		say("removed the container of version " + label(c, "version"))
	}
	if err := t.run(ctx, image, secrets); err != nil {
		return err
	}
	if c, there, err = t.look(ctx); err != nil {
		return err
	}
	if !there || c.Ended() {
		return t.failed(ctx, c, there)
	}
	say("container " + t.container + " runs " + image)
	return nil
}

func (t target) remove(ctx context.Context, c engine.Container) error {
	if c.Running() || c.State.Status == "restarting" || c.State.Status == "paused" {
		if _, err := t.on.Call(ctx, "stop", "-t", strconv.Itoa(int(t.settings.StopTimeout.Seconds())), c.ID); err != nil {
			return err
		}
	}
	_, err := t.on.Call(ctx, "rm", "--force", c.ID)
	return err
}

// run starts the container. The environment goes by a file.
func (t target) run(ctx context.Context, image string, secrets []string) error {
	var env bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(t.settings.Env)) {
		fmt.Fprintf(&env, "%s=%s\n", key, t.fill(t.settings.Env[key]))
	}
	for _, line := range secrets {
		env.WriteString(line + "\n")
	}
	args := []string{
		"sh", "-c", runScript, "manent-run", host.Digest(env.Bytes()), t.settings.Engine,
		"--name", t.container, "--restart", t.settings.Restart,
	}
	labels := [][2]string{{"slot", t.slot}, {"version", t.version}, {"digest", t.digest}, {"step", t.step}}
	for _, l := range labels {
		args = append(args, "--label", "manent."+l[0]+"="+l[1])
	}
	for _, p := range t.settings.Publish {
		args = append(args, "--publish", t.fill(p))
	}
	for _, arg := range t.settings.Arguments {
		args = append(args, t.fill(arg))
	}
	args = append(args, image)
	for _, arg := range t.settings.Command {
		args = append(args, t.fill(arg))
	}
	_, err := t.on.Do(ctx, "run", host.Command{Args: args, Stdin: env.Bytes()})
	return err
}

func (t target) fill(text string) string { return fill(text, t.job, t.machine.Host, t.machine.Port) }

// failed is the fault of a container that has ended, with the end of its log.
func (t target) failed(ctx context.Context, c engine.Container, there bool) error {
	err := errors.New("the container is gone")
	if there {
		err = fmt.Errorf("the container has ended with exit code %d: %s", c.State.ExitCode, t.on.Log(ctx, c))
	}
	return &providers.Fault{
		Op: "container " + t.container, Kind: providers.Invalid, Err: err,
		Hint: "the container of before is not brought back: the slot has no traffic, and the other one serves",
	}
}

// ready is "" or what is missing.
func (t target) ready(ctx context.Context) (reason string, err error) {
	c, there, err := t.look(ctx)
	switch {
	case err != nil:
		return "", err
	case !there:
		return "there is no container " + t.container, nil
	case label(c, "version") != t.version || t.digest != "" && label(c, "digest") != t.digest:
		return fmt.Sprintf("container %s is of version %s (%s)", t.container, label(c, "version"), label(c, "digest")), nil
	case c.Ended():
		return "", t.failed(ctx, c, true)
	}
	return t.serves(ctx, c, true)
}

// adopted is "" or what is missing for what was there before manent: a
// container of the slot's name, whoever made it, is looked at if there is one.
func (t target) adopted(ctx context.Context) (reason string, err error) {
	c, there, err := t.on.Find(ctx, t.container)
	if err != nil && (t.machine.Port == 0 || !providers.KindOf(err).Definite()) {
		return "", err // else there is no engine, and the connection decides
	}
	return t.serves(ctx, c, there)
}

// serves looks at a container's health, if it is there, and at the port.
func (t target) serves(ctx context.Context, c engine.Container, there bool) (reason string, err error) {
	switch {
	case there && !c.Running():
		return fmt.Sprintf("container %s is %s: %s", t.container, c.State.Status, t.on.Log(ctx, c)), nil
	case there && c.Health() != "" && c.Health() != "healthy":
		return fmt.Sprintf("container %s is %s", t.container, c.Health()), nil
	case t.machine.Port == 0:
		return "", nil
	}
	return fleet.Accepts(ctx, t.host, t.settings.Listen, t.machine.Port)
}

// look finds the slot's container. One that manent did not make is refused.
func (t target) look(ctx context.Context) (c engine.Container, there bool, err error) {
	if c, there, err = t.on.Find(ctx, t.container); err == nil && there {
		err = t.ours(c)
	}
	return c, there && err == nil, err
}

// ours refuses a container of the slot's name that manent did not make.
func (t target) ours(c engine.Container) error {
	if slot := label(c, "slot"); slot != t.slot {
		return &providers.Fault{
			Op: "container " + t.container, Kind: providers.Invalid,
			Err: fmt.Errorf("it has the label manent.slot %q, expected %s: somebody else made it", slot, t.slot), Hint: "remove it by hand, or choose another name",
		}
	}
	return nil
}
