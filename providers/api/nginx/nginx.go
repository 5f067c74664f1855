// Package nginx is a client of open-source NGINX on one host: it replaces
// files of its configuration, reloads it, asks which configuration its workers
// serve, and reads configuration text. It must not know what a configuration
// is for, nor any contract.
package nginx

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/httpx"
)

// Server is NGINX on one host.
type Server struct {
	Host    host.Host
	Command []string // program with the arguments it always needs, ["nginx"]
	Reload  string   // shell text instead of Command with -t, then with -s reload; "" for these
}

// Replace makes a change to a file of the configuration: the whole of it is
// tested and loaded, or the old file is put back. See host.ReplaceFile. That
// it returns means that the master process was told, not that workers serve it.
func (s Server) Replace(ctx context.Context, file, expect string, data []byte) error {
	change := host.Change{Path: file, Expect: expect, Data: data, Apply: s.Reload}
	if s.Reload == "" {
		change.Check = host.Quote(s.with("-t")...)
		change.Apply = host.Quote(s.with("-s", "reload")...)
	}
	return host.ReplaceFile(ctx, s.Host, change)
}

func (s Server) with(args ...string) []string { return append(slices.Clone(s.Command), args...) }

// Version is the version of the installed program.
type Version [3]int

var versionText = regexp.MustCompile(`nginx version: [^/\s]+/(\d+)\.(\d+)\.(\d+)`)

// Version asks the program for its version.
func (s Server) Version(ctx context.Context) (Version, error) {
	res, err := s.Host.Run(ctx, host.Command{Args: s.with("-v")})
	if err != nil {
		return Version{}, err
	}
	found := versionText.FindSubmatch(res.Stderr)
	if res.Exit != 0 || found == nil {
		return Version{}, &providers.Fault{Op: "ask for the version", Kind: providers.Invalid,
			Err: fmt.Errorf("exit code %d: %s", res.Exit, host.Tail(res.Stderr)), Hint: "check nginx_command"}
	}
	var v Version
	for i := range v {
		v[i], _ = strconv.Atoi(string(found[i+1])) // digits; too many of them are no version that matters
	}
	return v, nil
}

// Since is Invalid when the program is older than the version that brought
// something.
func (s Server) Since(ctx context.Context, since Version, what string) error {
	v, err := s.Version(ctx)
	if err != nil || slices.Compare(v[:], since[:]) >= 0 {
		return err
	}
	return &providers.Fault{Op: what, Kind: providers.Invalid, Err: fmt.Errorf("NGINX %s has none, expected %s or newer", v, since)}
}

// String writes the version with dots.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// statusTimeout bounds one answer of a status location.
const statusTimeout = 3 * time.Second

// between two connections of Status: an old worker that is slow to hear of the
// reload still takes some of those that come at once.
const between = 5 * time.Millisecond

// wait reports whether the time has passed before the context ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Status gets url from the host, over n fresh connections one after the other:
// a connection meets one worker, and after a reload it may be an old one. It
// reports whether every answer was want, and stops at the first that was not.
// Another status says nothing about the file: it is never definite.
func (s Server) Status(ctx context.Context, url, want string, n int) (bool, error) {
	client := httpx.New(httpx.Options{
		Timeout: statusTimeout, Retries: -1, MaxBody: 4 << 10, NoRedirects: true,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: s.Host.Dial},
	})
	for i := range n {
		if i > 0 && !wait(ctx, between) {
			return false, &providers.Fault{Err: ctx.Err()}
		}
		resp, err := client.Send(ctx, httpx.Request{Method: http.MethodGet, URL: url})
		if err != nil {
			kind := providers.KindOf(err)
			if kind.Definite() {
				kind = providers.Unavailable
			}
			return false, &providers.Fault{Kind: kind, Err: err, Hint: "status_url is asked from the host of NGINX itself"}
		}
		if strings.TrimSpace(string(resp.Body)) != want {
			return false, nil
		}
	}
	return true, nil
}
