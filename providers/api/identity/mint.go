package identity

import (
	"context"
	"fmt"
	"net/http"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// maxAnswer is the longest answer with a token, in bytes. GitHub's tokens have
// about 2,000.
const maxAnswer = 64 << 10

// authorize adds the job's right to ask for tokens.
func (s Source) authorize(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+s.env.Getenv(requestToken))
	return nil
}

// mint asks the runner's service for a new token.
// API: GET $ACTIONS_ID_TOKEN_REQUEST_URL&audience=…, answered by {"value": …}.
func (s Source) mint(ctx context.Context, audience string) (providers.Secret, error) {
	u, err := providers.CheckURL(s.env.Getenv(requestURL), false)
	if err != nil {
		return providers.Secret{}, s.fault(audience, providers.Invalid, fmt.Errorf("%s: %w", requestURL, err), "the runner sets it; pass it on as it is")
	}
	query := u.Query()
	query.Set("audience", audience)
	u.RawQuery = query.Encode()
	var answer struct {
		Value string `json:"value"`
	}
	op := fmt.Sprintf("token for %.100q", audience)
	if _, err := s.mints.Send(ctx, httpx.Request{Method: http.MethodGet, URL: u.String(), Into: &answer, Op: op}); err != nil {
		return providers.Secret{}, s.refused(err)
	}
	c, err := parse(answer.Value)
	if err != nil {
		return providers.Secret{}, s.mints.Unexpected(op, err.Error())
	}
	if len(c.Audience) != 1 || c.Audience[0] != audience {
		return providers.Secret{}, s.mints.Unexpected(op, fmt.Sprintf("a token for %.100q", c.Audience))
	}
	return providers.NewSecret(answer.Value), nil
}

func (s Source) refused(err error) error {
	f, ok := err.(*providers.Fault) //nolint:errorlint // httpx returns the fault itself
	if ok && f.Kind == providers.Denied {
		f.Hint = "the job needs `permissions: {id-token: write}` in the workflow; the right to ask ends with the job"
	}
	return err
}
