package gitcli

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/manent/action/providers"
)

// TokenVariable names the environment variable with a token for the remote:
// TOKEN or USER:TOKEN. It goes out as a header to the remote's own host, over
// https (or plain http to this machine), and takes the place of every other
// header that the configuration has.
const TokenVariable = "MANENT_GIT_TOKEN" //nolint:gosec // a name, no secret

// remote is where the refs are and how to get there. It reconciles two needs:
// no hook and no setting of the user, the machine or the checkout may change
// what git does in the scratch repository, yet what they say on how to reach
// and authenticate to the remote must count (actions/checkout leaves its
// token as a header in the checkout's configuration, GitLab in the URL, people
// in a credential helper). So the whole configuration is read once, as git
// sees it in the checkout with all its includes; the settings about transport
// and credentials are handed on to every process through GIT_CONFIG_COUNT,
// which no other user of the machine can see; the files are shut out.
type remote struct {
	shown    string             // for messages
	settings []setting          // of every process in the scratch repository
	safe     []string           // directories of others that the user trusts
	secrets  providers.Redactor // what messages must not have
}

type setting struct{ key, value string }

func (c *Client) findRemote(ctx context.Context) (*remote, error) {
	r := c.run(ctx, command{dir: c.env.Dir, args: []string{"config", "--list", "--null"}, env: c.configEnviron()})
	if err := r.Fault(); err != nil {
		return nil, fmt.Errorf("read the configuration of the checkout: %w", err)
	}
	var all []setting
	for entry := range strings.SplitSeq(string(r.Out), "\x00") {
		if key, value, _ := strings.Cut(entry, "\n"); key != "" {
			all = append(all, setting{key, value})
		}
	}
	address, err := c.addressIn(all)
	if err != nil {
		return nil, &providers.Fault{Kind: providers.Invalid, Err: err, Hint: "add the remote, or name a place with state: git:<url>, file:<dir> or s3://…"}
	}
	if address, err = c.absolute(ctx, address, all); err != nil {
		return nil, err
	}
	return c.compose(address, all)
}

// absolute makes a relative path, as a remote's URL may be, what git takes it
// for in the checkout: one from the top of its files, or of a bare repository.
// The scratch repository is elsewhere. What url.<base>.insteadOf replaces is
// left to git.
func (c *Client) absolute(ctx context.Context, address string, all []setting) (string, error) {
	if isURL(address) || filepath.IsAbs(address) || replaced(address, all) {
		return address, nil
	}
	for _, of := range []string{"--show-toplevel", "--absolute-git-dir"} {
		r := c.run(ctx, command{dir: c.env.Dir, args: []string{"rev-parse", of}, env: c.configEnviron()})
		if top := strings.TrimSuffix(string(r.Out), "\n"); r.Fault() == nil && top != "" {
			return filepath.Join(filepath.FromSlash(top), filepath.FromSlash(address)), nil
		}
	}
	return "", &providers.Fault{
		Kind: providers.Invalid, Err: fmt.Errorf("the remote's address %q is a relative path, and nobody knows from where", RedactURL(address)),
		Hint: "give the remote an absolute path or a URL: git remote set-url",
	}
}

// isURL reports whether an address is no path: a URL, ssh's host:path, or the
// name of a helper program.
func isURL(address string) bool {
	colon, slash := strings.Index(address, ":"), strings.Index(address, "/")
	return colon > 0 && (slash < 0 || colon < slash)
}

func replaced(address string, all []setting) bool {
	for _, a := range all {
		instead := strings.HasSuffix(a.key, ".insteadof") || strings.HasSuffix(a.key, ".pushinsteadof")
		if instead && strings.HasPrefix(a.key, "url.") && strings.HasPrefix(address, a.value) {
			return true
		}
	}
	return false
}

// addressIn is the URL or path of the remote. A push URL counts for reading
// too: compare-and-set needs one place.
func (c *Client) addressIn(all []setting) (string, error) {
	name := cmp.Or(c.address, "origin")
	last := map[string]string{}
	for _, a := range all {
		last[a.key] = a.value
	}
	if found := cmp.Or(last["remote."+name+".pushurl"], last["remote."+name+".url"]); found != "" {
		return found, nil
	}
	scheme, _, hasScheme := strings.Cut(name, "://")
	switch {
	case strings.Contains(name, "::"): // would run a helper program of that name
		return "", fmt.Errorf("address %q, expected https, ssh, a path or a remote", RedactURL(name))
	case hasScheme && scheme != "https" && scheme != "http" && scheme != "ssh" && scheme != "file":
		return "", fmt.Errorf("address %q, expected https or ssh", RedactURL(name))
	case isURL(name), filepath.IsAbs(name):
		return name, nil
	case strings.Contains(name, "/"):
		return filepath.Abs(filepath.Join(c.env.Dir, filepath.FromSlash(name)))
	}
	return "", fmt.Errorf("the checkout has no remote %q", name)
}

func (c *Client) compose(address string, all []setting) (*remote, error) {
	r := &remote{}
	r.settings = []setting{{"core.sshCommand", "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes"}}
	header, base := setting{}, address
	if strings.HasPrefix(address, "http:") || strings.HasPrefix(address, "https:") {
		var err error
		if base, header, err = r.credentials(address, c.env.Getenv(TokenVariable)); err != nil {
			return nil, err
		}
	}
	r.shown = RedactURL(base)
	for _, a := range all {
		isHeader := strings.HasSuffix(a.key, ".extraheader")
		if isHeader {
			_, credential, _ := strings.Cut(strings.TrimSpace(a.value), ":")
			r.addSecret(credential)
		}
		if a.key == "safe.directory" {
			r.safe = append(r.safe, a.value)
		}
		if handedOn(a.key) && (!isHeader || header.key == "") {
			r.settings = append(r.settings, a)
		}
	}
	if header.key != "" {
		r.settings = append(r.settings, header)
	}
	r.settings = append(r.settings,
		setting{"remote." + RemoteName + ".url", base},
		setting{"core.hooksPath", os.DevNull}, setting{"commit.gpgSign", "false"}, setting{"push.gpgSign", "false"},
		setting{"http.followRedirects", "false"}, // git would take the token along
		setting{"gc.auto", "0"}, setting{"maintenance.auto", "false"},
		setting{"core.fsync", "none"}, // the scratch repository need not outlive the machine
	)
	return r, nil
}

// handedOn reports whether a setting is about how to reach and authenticate
// to a remote. Not among them: switching off the check of certificates, and
// following redirects, where one for a URL would go before ours for all.
func handedOn(key string) bool {
	if strings.HasSuffix(key, ".sslverify") || strings.HasSuffix(key, ".followredirects") {
		return false
	}
	for _, prefix := range []string{"http.", "credential.", "url.", "ssh."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return key == "core.sshcommand"
}

// credentials takes the password out of an http(s) URL and makes a header of
// it, or of the token, for the URL's own host. Without either the header is
// empty and the rest of the configuration decides.
func (r *remote) credentials(address, token string) (base string, header setting, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", header, &providers.Fault{Kind: providers.Invalid, Err: errors.New("the remote's address is not a URL")}
	}
	if password, ok := u.User.Password(); ok {
		token = cmp.Or(token, u.User.Username()+":"+password)
		r.addSecret(password)
		u.User = nil
	}
	user := u.User
	u.User = nil
	if _, err := providers.CheckURL(u.String(), false); err != nil {
		return "", header, &providers.Fault{Kind: providers.Invalid, Err: err, Hint: "use https or ssh"}
	}
	host := u.Scheme + "://" + u.Host + "/"
	u.User = user
	if token == "" {
		return u.String(), header, nil
	}
	r.addSecret(token)
	if !strings.Contains(token, ":") {
		token = "x-access-token:" + token // GitHub's name for any token; other hosts take any name
	}
	_, password, _ := strings.Cut(token, ":")
	r.addSecret(password)
	basic := base64.StdEncoding.EncodeToString([]byte(token))
	r.addSecret(basic)
	return u.String(), setting{"http." + host + ".extraHeader", "Authorization: Basic " + basic}, nil
}

// addSecret hides a value and the words of it, so that "Bearer xyz" hides xyz.
func (r *remote) addSecret(value string) {
	for _, word := range strings.Fields(value) {
		r.secrets.Add(providers.NewSecret(word))
	}
}

var userinfo = regexp.MustCompile(`://[^/@\s]+@`)

// RedactURL takes what may be a password out of any URL in a text.
func RedactURL(text string) string { return userinfo.ReplaceAllString(text, "://[redacted]@") }
