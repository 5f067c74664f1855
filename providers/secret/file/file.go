// Package file takes secrets from files: what Kubernetes, Docker and CI
// systems mount. It must not know what they are for.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/secret"
)

var _ secret.Source = (*Source)(nil)

const (
	scheme = "file"
	most   = 64 << 10 // bytes
)

// Spec describes the source.
func Spec() secret.Spec {
	return secret.Spec{
		Scheme: scheme, Summary: "a file, absolute or in the workspace, of at most 64 KiB", Example: "file:/run/secrets/haproxy", New: New,
	}
}

// Source reads files.
type Source struct {
	dir string
	log func(string, ...any)
}

// New returns the source.
func New(env providers.Env) (secret.Source, error) {
	log := env.Log
	if log == nil {
		log = func(string, ...any) {}
	}
	return &Source{dir: env.Dir, log: log}, nil
}

// Resolve implements secret.Source. One line end behind the value is not part
// of it. A relative path stays inside the workspace, also by its links.
//
// Who else may read the file is not checked to refuse it: Kubernetes mounts
// secrets as 0644, Docker as 0444 and GitLab writes them as 0666, all in a
// place of one job. A file in the workspace that everybody on the machine may
// read or change is reported in the log.
func (s *Source) Resolve(ctx context.Context, ref string) (providers.Secret, error) {
	if err := ctx.Err(); err != nil {
		return providers.Secret{}, fault(ref, providers.Unknown, err, "")
	}
	if ref == "" || strings.ContainsAny(ref, "\x00\n\r") {
		return providers.Secret{}, &providers.Fault{Provider: scheme, Op: "secret", Kind: providers.Invalid,
			Err: errors.New("not a path"), Hint: "a reference is file: and a path, never the secret itself"}
	}
	data, err := s.read(ref)
	if err != nil {
		return providers.Secret{}, err
	}
	data = trim(data)
	if len(data) == 0 {
		return providers.Secret{}, fault(ref, providers.NotFound, errors.New("empty"), "write the secret into the file before manent runs")
	}
	return providers.NewSecret(string(data)), nil
}

func (s *Source) read(ref string) ([]byte, error) {
	f, err := s.open(ref)
	if err != nil {
		return nil, s.refused(ref, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fault(ref, providers.Unknown, plain(err), "")
	case len(data) > most:
		return nil, fault(ref, providers.Invalid, fmt.Errorf("longer than %d bytes", most), "a secret is a key or a password; is this the right file?")
	}
	return data, nil
}

var (
	errNoFile  = errors.New("not a file")
	errOutside = errors.New("path leaves the workspace")
)

// open refuses what is no file before it is opened: a pipe would block.
func (s *Source) open(ref string) (*os.File, error) {
	if filepath.IsAbs(ref) {
		info, err := os.Stat(ref)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, errNoFile
		}
		return os.Open(ref)
	}
	if !filepath.IsLocal(ref) {
		return nil, errOutside
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(ref)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	if info.Mode().Perm()&0o006 != 0 && runtime.GOOS != "windows" { // which has no such modes
		s.log("secret file %s may be read or changed by everybody on this machine (mode %#o)", ref, info.Mode().Perm())
	}
	return root.Open(ref)
}

// refused maps an error of opening. A path that leaves the workspace has no
// error of its own.
func (s *Source) refused(ref string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault(ref, providers.NotFound, errors.New("does not exist"), "a relative path starts in the workspace; is the secret mounted in this job?")
	case errors.Is(err, fs.ErrPermission):
		return fault(ref, providers.Denied, errors.New("not readable by this user"), "give the user that runs manent the right to read it")
	case errors.Is(err, errNoFile):
		return fault(ref, providers.Invalid, err, "name the file itself, not its directory or a pipe")
	case !filepath.IsAbs(ref) && !errors.Is(err, fs.ErrInvalid):
		return fault(ref, providers.Invalid, plain(err), "a relative path stays inside the workspace; name a file elsewhere by its absolute path")
	}
	return fault(ref, providers.Unknown, plain(err), "")
}

// plain is an error of the file system without its path, which the fault has.
func plain(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func trim(data []byte) []byte {
	if line, ok := bytes.CutSuffix(data, []byte("\n")); ok {
		return bytes.TrimSuffix(line, []byte("\r"))
	}
	return data
}

func fault(ref string, kind providers.Kind, err error, hint string) error {
	return &providers.Fault{Provider: scheme, Op: fmt.Sprintf("secret %q", ref), Kind: kind, Err: err, Hint: hint}
}
