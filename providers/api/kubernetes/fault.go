package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// call says what was tried, for the error and its hint.
type call struct {
	op   string
	verb string
	ref  Ref
	sub  []string

	ctx, one context.Context // the caller's and this request's
	limit    time.Duration
	answer   answer
}

// fault gives an error its kind and drops its chain, which holds addresses and
// credentials and would pass off a timeout as the caller's.
func (c *Client) fault(what call, err error) error {
	f := &providers.Fault{Provider: c.opts.Provider, Op: what.op, After: what.answer.after}
	var given *providers.Fault
	var lost *lostError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &given):
		f.Kind, f.Err, f.Hint = given.Kind, given.Err, given.Hint
	case what.ctx != nil && what.ctx.Err() != nil:
		f.Err = fmt.Errorf("no answer from %s: %w", c.cluster(), what.ctx.Err())
	case what.one != nil && what.one.Err() != nil:
		f.Err, f.Hint = fmt.Errorf("no answer within %v from %s", what.limit, c.cluster()), c.cluster().another()
	case errors.As(err, &lost):
		f.Kind, f.Err, f.Hint = c.onTheWay(lost.err)
	case errors.As(err, &status):
		f.Kind, f.Err, f.Hint = c.answered(what, status)
	default:
		f.Err = errors.New(c.clean(plain(err)))
	}
	return f
}

func (c *Client) clean(text string) string { return oneLine(c.redact.Clean(text)) }

// onTheWay: only when no connection came about is it sure that nothing
// happened. Which cluster it is about cannot be seen from an address.
func (c *Client) onTheWay(err error) (providers.Kind, error, string) { //nolint:staticcheck // the parts of a Fault in their order
	var dial *net.OpError
	var cert *tls.CertificateVerificationError
	to := c.cluster()
	text := fmt.Errorf("no connection to %s: %s", to, c.clean(plain(err)))
	switch {
	case errors.As(err, &cert):
		return providers.Unavailable, text, "the kubeconfig's certificate-authority-data must be the authority that signed the API server's certificate"
	case errors.As(err, &dial) && dial.Op == "dial":
		return providers.Unavailable, text, to.another()
	}
	return providers.Unknown, fmt.Errorf("connection to %s: %s", to, c.clean(plain(err))), ""
}

// answered maps a status of the API server.
func (c *Client) answered(what call, err apierrors.APIStatus) (providers.Kind, error, string) { //nolint:staticcheck // as above
	s := err.Status()
	code := int(s.Code)
	text := fmt.Errorf("status %d: %s", code, c.clean(message(err)))
	kind := httpx.KindOf(code)
	switch {
	case code == http.StatusGone: // what was to follow in a list is not kept so long; nothing is said of any object
		return providers.Unavailable, text, ""
	case code == http.StatusGatewayTimeout: // the request went on inside and may have been done
		kind = providers.Unknown
	case what.answer.to != "":
		return providers.Unavailable, fmt.Errorf("status %d: it sends to %s, and no redirect is followed: credentials go to %s only", code, c.clean(what.answer.to), c.cluster()),
			"give the API server's own address as server in the kubeconfig"
	case kind.Definite() && !what.answer.own:
		return providers.Unavailable, fmt.Errorf("status %d from something that is not the API server at %s, which says no with a Status: %s", code, c.cluster(), c.clean(message(err))),
			"see what is between here and the API server, and the server's address in the kubeconfig"
	case code == http.StatusUnauthorized:
		text = fmt.Errorf("%w, says %s", text, c.cluster())
	}
	return kind, text, hint(what, code, s.Message)
}

// message is what the server said; of an answer that is no Status only the
// first cause has the text.
func message(err apierrors.APIStatus) string {
	s := err.Status()
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Type == "UnexpectedServerResponse" && cause.Message != "unknown" {
				return cause.Message
			}
		}
	}
	return s.Message
}

func hint(what call, code int, said string) string {
	if _, said, found := strings.Cut(said, " cannot "); found && what.verb == "patch" && strings.HasPrefix(said, "create ") {
		what.verb = "create" // what a patch of an object that is not there asks for
	}
	switch {
	case code == http.StatusForbidden && what.verb != "" && !strings.Contains(said, "cannot "+what.verb):
		return "an admission webhook or policy of the cluster refused it, not RBAC"
	case code == http.StatusForbidden && what.verb != "":
		needs := Grant{Group: what.ref.Group, Resource: strings.Join(append([]string{what.ref.Resource}, what.sub...), "/"), Verbs: []string{what.verb}}
		return "allow it in RBAC: " + needs.String() + scope(what.ref)
	case code == http.StatusUnauthorized:
		return "the cluster does not know these credentials: renew the token, or name another cluster with the settings context and kubeconfig"
	}
	return ""
}

func scope(r Ref) string {
	if r.Namespace == "" {
		return " in a ClusterRole"
	}
	return " in a Role of namespace " + r.Namespace
}

func plain(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// oneLine keeps the first words of a text, without control characters.
func oneLine(text string) string {
	const most = 400
	runes := []rune(strings.Join(strings.Fields(text), " "))
	cut := ""
	if len(runes) > most {
		runes, cut = runes[:most], "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(runes)) + cut
}
