package f5

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// own reports whether an error is the interface's: it has a code and words.
func own(resp *httpx.Response) bool {
	var said struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	return json.Unmarshal(resp.Body, &said) == nil && said.Code != 0 && said.Message != ""
}

// notItsOwn is a refusal of something in front of the device: it says nothing
// about the pool, the user or the transaction.
func notItsOwn(f providers.Fault) error {
	f.Err = &foreignError{f.Err}
	if f.Kind.Definite() {
		f.Kind = providers.Unavailable
		f.Hint = foreignHint
	}
	return &f
}

const foreignHint = "the answer is not of iControl REST, which answers in JSON: is management_url the BIG-IP itself, and does no proxy or login page answer for it? Redirects are not followed"

// foreignError marks what is not the interface's own answer.
type foreignError struct{ error }

// Unwrap returns what was answered.
func (e *foreignError) Unwrap() error { return e.error }

// expired reports whether the device does not know the token any more.
func expired(resp *httpx.Response) bool {
	return resp != nil && resp.Status == http.StatusUnauthorized && own(resp) &&
		!strings.Contains(strings.ToLower(string(resp.Body)), "authorization failed")
}

// loginFault names the remedy of a login that was refused.
func (c *Client) loginFault(resp *httpx.Response, err error) error {
	f, ok := asFault(err)
	if !ok || resp == nil {
		return err
	}
	switch {
	case !own(resp):
		return notItsOwn(*f)
	case strings.Contains(string(resp.Body), "maximum active login tokens"):
		f.Kind = providers.Throttled // tokens end after 20 minutes
		f.Hint = "give manent a user of its own; delete that user's tokens (DELETE /mgmt/shared/authz/tokens/TOKEN) or wait 20 minutes until they end"
	case resp.Status == http.StatusUnauthorized:
		f.Hint = "check user and password in credentials_secret, written user:password"
	}
	return f
}

// refused gives the kind and the remedy that statuses alone do not tell. A
// transaction that failed is answered with 409 too, and is nobody's conflict.
func (c *Client) refused(resp *httpx.Response, err error) error {
	f, ok := asFault(err)
	if !ok || resp == nil {
		return err
	}
	text := strings.ToLower(string(resp.Body))
	switch {
	case !own(resp):
		return notItsOwn(*f)
	case denied(text):
		f.Kind = providers.Denied
	case strings.Contains(text, "transaction failed"):
		f.Kind = providers.Invalid
	case resp.Status == http.StatusNotFound && strings.Contains(text, "transaction"):
		f.Kind = providers.Unavailable
		f.Hint = "it was not finished in time and is gone, nothing was changed; try again"
	case resp.Status == http.StatusBadRequest && strings.Contains(text, "uri path") && strings.Contains(text, "not registered"):
		f.Kind = providers.NotFound
		f.Hint = "management_url is no BIG-IP with iControl REST"
	}
	if f.Kind == providers.Denied {
		f.Hint = roleHint
	}
	return f
}

const roleHint = "the user of credentials_secret needs the role manager on the pool's partition: an operator may enable and disable members, not change their ratio"

// denied reports whether the device says that the user's role is too low.
func denied(said string) bool {
	return strings.Contains(said, "01070822") || strings.Contains(strings.ToLower(said), "access denied")
}

// hinted adds a remedy in front of the one there is.
func hinted(err error, hint string) error {
	f, ok := asFault(err)
	if !ok {
		return err
	}
	if f.Hint != "" {
		hint += "; " + f.Hint
	}
	f.Hint = hint
	return f
}
