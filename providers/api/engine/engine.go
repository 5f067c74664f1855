// Package engine is a client of Docker or Podman on another machine: their
// command line, over a host. Commands and fields are those of the references
// of docker (27) and podman (5). It must not know what is run there, nor any
// contract.
package engine

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
)

// Engine is the one on a machine. Errors are *providers.Fault without a
// Provider.
type Engine struct {
	Host    host.Host
	Program string // docker or podman
}

// Log is the end of a container's log on one line.
func (e Engine) Log(ctx context.Context, c Container) string {
	res, err := e.Host.Run(ctx, host.Command{Args: []string{e.Program, "logs", "--tail", "20", c.ID}})
	if err != nil {
		return "no log: " + err.Error()
	}
	return host.Tail(slices.Concat(res.Stdout, []byte("\n"), res.Stderr))
}

// Inspect reads what the engine knows of an image or container, a list.
func (e Engine) Inspect(ctx context.Context, what, id string, into any) error {
	out, err := e.Call(ctx, what, "inspect", id)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil { // without err, which may quote the environment
		return &providers.Fault{Op: what + " inspect " + id, Kind: providers.Unknown, Err: errors.New("the answer is no JSON")}
	}
	return nil
}

// Find is the container of a name; there is false when there is none.
func (e Engine) Find(ctx context.Context, name string) (c Container, there bool, err error) {
	pattern := "name=^" + strings.ReplaceAll(name, ".", "[.]") + "$"
	out, err := e.Call(ctx, "container", "ls", "--all", "--no-trunc", "--quiet", "--filter", pattern)
	ids := strings.Fields(out)
	if err != nil || len(ids) == 0 {
		return c, false, err
	}
	var all []Container
	if err := e.Inspect(ctx, "container", ids[0], &all); err != nil {
		return c, false, err
	}
	if len(ids) != 1 || len(all) != 1 || strings.TrimPrefix(all[0].Name, "/") != name {
		return c, false, &providers.Fault{Op: "look", Kind: providers.Unknown, Err: fmt.Errorf("unexpected answer %q", host.Tail([]byte(out)))}
	}
	return all[0], true, nil
}

// Digest is the one that an image, which is there, has in its registry.
func (e Engine) Digest(ctx context.Context, image, repository string) (string, error) {
	var images []Image
	if err := e.Inspect(ctx, "image", image, &images); err != nil {
		return "", err
	}
	if len(images) == 1 {
		if digest := images[0].DigestOf(repository); strings.HasPrefix(digest, "sha256:") {
			return digest, nil
		}
	}
	return "", &providers.Fault{Op: "inspect " + image, Kind: providers.Invalid, Err: errors.New("the image has no digest of its registry")}
}

//go:embed check.sh
var checkScript string

// Check says what the machine lacks, beside the engine, to run a container with
// a file of variables. It changes nothing.
func (e Engine) Check(ctx context.Context) error {
	_, err := e.Do(ctx, "check", host.Command{Args: []string{"sh", "-c", checkScript, "manent-check"}})
	return err
}

// Call runs a command of the engine and returns what it printed.
func (e Engine) Call(ctx context.Context, args ...string) (string, error) {
	return e.Do(ctx, strings.Join(args[:min(2, len(args))], " "), host.Command{Args: append([]string{e.Program}, args...)})
}

// Do runs a program that calls the engine, and says what its refusal means.
func (e Engine) Do(ctx context.Context, op string, c host.Command) (string, error) {
	res, err := e.Host.Run(ctx, c)
	if err != nil {
		return "", err
	}
	if res.Exit == 0 {
		return string(res.Stdout), nil
	}
	said := host.Tail(res.Stderr)
	if said == "" {
		said = fmt.Sprintf("exit code %d", res.Exit)
	}
	kind, hint := e.meaning(strings.ToLower(said), op, res.Exit)
	return "", &providers.Fault{Op: e.Program + " " + op, Kind: kind, Err: errors.New(said), Hint: hint}
}

// meaning of a refusal, by what engines and registries are known to say.
func (e Engine) meaning(said, op string, exit int) (providers.Kind, string) {
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(said, text) })
	}
	pull := strings.HasPrefix(op, "pull")
	switch {
	case exit == 127:
		return providers.Invalid, "the target needs " + e.Program + ", sh, mktemp and sha256sum"
	case has("permission denied"):
		return providers.Denied, "the SSH user has to be allowed to use " + e.Program
	case pull && has("denied", "unauthorized", "authentication required"):
		return providers.Denied, "log in to the registry on the target: " + e.Program + " login"
	case pull && has("manifest unknown", "not found", "name unknown"):
		return providers.NotFound, "push the image first"
	case exit == 23, exit == 27:
		return providers.Unknown, ""
	case has("no space left"):
		return providers.Invalid, "make room for images on the target"
	case op == "check":
		return providers.Invalid, ""
	case op == "run":
		return providers.Invalid, "the container of before was removed and is not brought back"
	}
	return providers.Unavailable, ""
}
