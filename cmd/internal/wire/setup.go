package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/gitcli"
)

// origin is the repository that the checkout's origin names.
type origin struct{ host, path string }

// origin asks the checkout which repository it is of.
func (h Host) origin(ctx context.Context) (origin, error) {
	address, err := gitcli.New(h.env(nil), "").Address(ctx)
	if err != nil {
		return origin{}, err
	}
	return parseOrigin(address)
}

// parseOrigin reads https://HOST/PATH, ssh://HOST/PATH or HOST:PATH.
func parseOrigin(address string) (origin, error) {
	text := strings.Replace(address, "://[redacted]@", "://", 1)
	if !strings.Contains(text, "://") {
		if host, path, ok := strings.Cut(text, ":"); ok && !strings.Contains(host, "/") {
			text = "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Path, `\`) || (u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh") {
		return origin{}, fmt.Errorf("origin is %.100q, which is no repository of a server", address)
	}
	out := origin{host: strings.ToLower(u.Host), path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	if u.Scheme == "ssh" { // the API is not behind ssh's port, and github.com has a host for ssh alone
		out.host = strings.TrimPrefix(strings.ToLower(u.Hostname()), "ssh.")
	}
	return out, nil
}

// personal is the token of a person from the first variable that is set. What it
// needs is for whoever has none yet.
func (h Host) personal(system, needs string, variables ...string) (providers.Secret, error) {
	for _, name := range variables {
		if value := h.Getenv(name); value != "" {
			token := providers.NewSecret(value)
			h.Redactor.Add(token)
			return token, nil
		}
	}
	return providers.Secret{}, &providers.Fault{
		Provider: system, Op: "API", Kind: providers.Denied, Err: fmt.Errorf("%s is not set", strings.Join(variables, " or ")),
		Hint: "set it to a token of your own with " + needs + ": what a job's token may do is not enough",
	}
}

// unnamed is the fault of a repository that nothing names.
func unnamed(system, flag, variable string, err error) error {
	return &providers.Fault{
		Provider: system, Op: "find the repository", Kind: providers.Invalid, Err: errors.New(cmp.Or(text(err), "no repository is named")),
		Hint: fmt.Sprintf("add %s, set %s, or call it in a checkout whose origin is there", flag, variable),
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
