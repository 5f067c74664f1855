package google

import (
	"context"
	"net/http"
	"net/url"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/externalaccount"

	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/api/identity"
)

// API: POST https://sts.googleapis.com/v1/token, then, to act as a service
// account, POST https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/…:generateAccessToken.
const (
	tokenURL = "https://sts.googleapis.com/v1/token" //nolint:gosec // the address of tokens, not one
	actAsURL = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
)

// federated exchanges the job's token for one of Google's. The audience of
// the job's token is the provider's own name as an address, which a provider
// accepts unless told otherwise.
func (l *login) federated(ctx context.Context, who identity.Source) (token bearer.Token, expired bool, err error) {
	over := bearer.NewLogin(l.http, l.env.Hide, read)
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: over})
	conf := externalaccount.Config{ //nolint:gosec // names, no secrets
		Audience:             "//iam.googleapis.com/" + l.pool,
		SubjectTokenType:     "urn:ietf:params:oauth:token-type:jwt",
		TokenURL:             tokenURL,
		Scopes:               []string{scope},
		SubjectTokenSupplier: supplier{who, "https://iam.googleapis.com/" + l.pool, over},
	}
	if l.account != "" {
		conf.ServiceAccountImpersonationURL = actAsURL + url.PathEscape(l.account) + ":generateAccessToken"
	}
	source, err := externalaccount.NewTokenSource(ctx, conf)
	if err != nil {
		return token, false, l.invalid(err, "")
	}
	got, err := source.Token()
	if err != nil {
		return token, over.Expired(), over.Fault(ctx, l.provider)
	}
	return tokenOf(got), false, nil
}

// supplier gives the job's token when Google's library asks for it. Its errors
// are remembered: the library keeps only their text.
type supplier struct {
	who      identity.Source
	audience string
	over     *bearer.Login
}

// SubjectToken implements externalaccount.SubjectTokenSupplier.
func (s supplier) SubjectToken(ctx context.Context, _ externalaccount.SupplierOptions) (string, error) {
	token, err := s.who.Token(ctx, s.audience)
	if err != nil {
		s.over.Failed(err)
		return "", err
	}
	return token.Reveal(), nil
}
