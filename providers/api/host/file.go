package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/manent/action/providers"
)

//go:embed read.sh
var readScript string

//go:embed replace.sh
var replaceScript string

// Digests that are none.
const (
	Absent = "absent" // there is no file
	Any    = "any"    // in a Change: whatever is there
)

// Content is what a managed file holds.
type Content struct {
	Data       []byte
	Digest     string // SHA-256 in hex, or Absent
	Unfinished bool   // a replacement was killed before its content was checked and applied
}

// Change replaces a managed file as a whole. Check and Apply are text for sh;
// data goes into them by Quote only.
type Change struct {
	Path   string // absolute; its directory exists
	Expect string // digest of what is there, Absent or Any
	Data   []byte
	Check  string // has to succeed with the new content in place, "" for nothing
	Apply  string // takes the new content into use, "" for nothing
}

// Digest is the digest of some content.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ReadFile reads a managed file of at most MaxOutput bytes. It waits for a
// replacement that is going on.
func ReadFile(ctx context.Context, h Host, file string) (Content, error) {
	op := "read " + file
	if !path.IsAbs(file) {
		return Content{}, fault(providers.Invalid, op, errors.New("the path is not absolute"), "")
	}
	res, err := h.Run(ctx, Command{Args: []string{"sh", "-c", readScript, "manent-read", file}})
	if err != nil {
		return Content{}, err
	}
	if res.Exit != 0 {
		return Content{}, exitFault(op, res)
	}
	head, data, _ := bytes.Cut(res.Stdout, []byte("\n"))
	state, digest, _ := strings.Cut(string(head), " ")
	if state != "done" && state != "unfinished" {
		return Content{}, fault(providers.Unknown, op, fmt.Errorf("unexpected answer %q", Tail(head)),
			"the login scripts of the user must not print anything")
	}
	content := Content{Data: data, Digest: digest, Unfinished: state == "unfinished"}
	if digest != Absent && digest != Digest(data) {
		return Content{}, fault(providers.Unknown, op, errors.New("the content arrived incomplete"), "")
	}
	return content, nil
}

// ReplaceFile makes a change: under a lock it compares, writes a temporary
// file in the same directory, syncs and renames it, checks and applies. If
// check or apply fail, the old content is put back (and applied again). Owner
// and mode are kept; a new file has mode 0644.
//
// All of it is one program on the machine, which goes on when the connection
// to it is lost: then the fault is Unknown, and either the whole change was
// made or nothing. Other faults: Conflict when the file is not as expected;
// Invalid when check or apply refused the content, which is not in place;
// Denied; Unavailable when somebody else holds the lock.
func ReplaceFile(ctx context.Context, h Host, c Change) error {
	op := "write " + c.Path
	if !path.IsAbs(c.Path) {
		return fault(providers.Invalid, op, errors.New("the path is not absolute"), "")
	}
	res, err := h.Run(ctx, Command{Stdin: c.Data, Args: []string{
		"sh", "-c", replaceScript, "manent-replace", c.Path, c.Expect, Digest(c.Data), c.Check, c.Apply,
	}})
	if err != nil {
		return err
	}
	if res.Exit != 0 {
		return exitFault(op, res)
	}
	return nil
}

// exitFault reads the exit codes of the two scripts.
func exitFault(op string, res Result) error {
	said := Tail(res.Stderr)
	switch res.Exit {
	case 20:
		return fault(providers.NotFound, op, errors.New(said), "make the directory first")
	case 22:
		return fault(providers.Unavailable, op, errors.New(said), "")
	case 23:
		return fault(providers.Unknown, op, errors.New(said), "")
	case 24:
		return fault(providers.Conflict, op, errors.New(said), "")
	case 25:
		return fault(providers.Invalid, op, fmt.Errorf("the check refused it, the old content is back: %s", said), "")
	case 26:
		return fault(providers.Invalid, op, fmt.Errorf("it could not be applied, the old content is back: %s", said), "")
	}
	if strings.Contains(said, "Permission denied") || strings.Contains(said, "Operation not permitted") {
		return fault(providers.Denied, op, errors.New(said), "the user has to be allowed to write the file and its directory")
	}
	return fault(providers.Unknown, op, fmt.Errorf("exit code %d: %s", res.Exit, said), "")
}

// Tail is the end of a program's output as one line, for messages.
func Tail(output []byte) string {
	const lines, most = 6, 1000
	all := strings.Split(strings.TrimSpace(string(output)), "\n")
	text := strings.Join(all[max(0, len(all)-lines):], "; ")
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(clean) > most {
		clean = "…" + strings.ToValidUTF8(clean[len(clean)-most:], "")
	}
	return clean
}
