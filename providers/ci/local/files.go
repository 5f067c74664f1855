package local

import (
	"context"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
)

// repository names the repository that dir is in. A directory that git says
// nothing about has its own name; only an end of ctx is an error.
func repository(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if remote := git(ctx, dir, "remote", "get-url", "origin"); remote != "" {
		return fromRemote(remote), nil
	}
	if top := git(ctx, dir, "rev-parse", "--show-toplevel"); top != "" {
		dir = filepath.FromSlash(top)
	}
	return filepath.Base(dir), ctx.Err()
}

// git returns what git prints, "" when it fails or is not there.
func git(ctx context.Context, dir string, args ...string) string {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// fromRemote makes host/owner/name of a remote's address, the same for every
// protocol and without credentials; of a path its last part.
func fromRemote(remote string) string {
	trim := func(path string) string { return strings.TrimSuffix(strings.Trim(path, "/"), ".git") }
	if u, err := url.Parse(remote); err == nil && strings.Contains(remote, "://") {
		if u.Hostname() != "" {
			return u.Hostname() + "/" + trim(u.Path)
		}
		remote = u.Path
	}
	if host, path, found := strings.Cut(remote, ":"); found && len(host) > 1 && !strings.ContainsAny(host, `/\`) {
		return host[strings.LastIndex(host, "@")+1:] + "/" + trim(path)
	}
	return trim(filepath.Base(filepath.ToSlash(remote)))
}
