package google

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"

	"golang.org/x/oauth2"
	oauth "golang.org/x/oauth2/google"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/bearer"
)

// maxFile is the longest file of credentials that is read, in bytes.
const maxFile = 64 << 10

// found logs in with application default credentials.
// https://cloud.google.com/docs/authentication/application-default-credentials
func (l *login) found(ctx context.Context) (bearer.Token, error) {
	over := bearer.NewLogin(l.http, l.env.Hide, read)
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: over})
	credentials, err := l.credentials(ctx)
	if err != nil {
		return bearer.Token{}, err
	}
	got, err := credentials.TokenSource.Token()
	if err != nil {
		return bearer.Token{}, over.Fault(ctx, l.provider)
	}
	return tokenOf(got), nil
}

func (l *login) credentials(ctx context.Context) (*oauth.Credentials, error) {
	if path := l.getenv(fileVar); path != "" {
		return l.file(ctx, path)
	}
	credentials, err := oauth.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, l.denied(errNone, "in a pipeline name "+providerVar+" and let the job have an identity; elsewhere run `gcloud auth application-default login`, or name a file in "+fileVar)
	}
	return credentials, nil
}

// kinds are what a file may hold. One that starts a program only does so with
// GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1.
func kinds() []oauth.CredentialsType {
	return []oauth.CredentialsType{
		oauth.ServiceAccount, oauth.AuthorizedUser, oauth.ExternalAccount, oauth.ExternalAccountAuthorizedUser, oauth.ImpersonatedServiceAccount,
	}
}

func (l *login) file(ctx context.Context, path string) (*oauth.Credentials, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, l.denied(fmt.Errorf("%s: %w", fileVar, err), "is the file there in this job?")
	}
	var head struct {
		Type oauth.CredentialsType `json:"type"`
	}
	if json.Unmarshal(data, &head) != nil || !slices.Contains(kinds(), head.Type) {
		return nil, l.invalid(fmt.Errorf("%s: not a file of Google's credentials, expected one of type %s", fileVar, kinds()[0]), "gcloud writes such files")
	}
	for _, secret := range secretsIn(data) {
		if err := l.env.Hide(secret); err != nil {
			return nil, err
		}
	}
	credentials, err := oauth.CredentialsFromJSONWithType(ctx, data, head.Type, scope)
	if err != nil {
		return nil, l.invalid(fmt.Errorf("%s: incomplete credentials of type %s", fileVar, head.Type), "gcloud writes such files")
	}
	return credentials, nil
}

// secretsIn are the values of a file of credentials that nobody may see.
func secretsIn(data []byte) []providers.Secret {
	var held struct {
		Key     string `json:"private_key"`
		Refresh string `json:"refresh_token"`
		Client  string `json:"client_secret"`
	}
	if json.Unmarshal(data, &held) != nil {
		return nil
	}
	var out []providers.Secret
	for _, value := range []string{held.Key, held.Refresh, held.Client} {
		if value != "" {
			out = append(out, providers.NewSecret(value))
		}
	}
	return out
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, fmt.Errorf("%.200q: %w", path, p.Err)
		}
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%.200q is longer than %d bytes", path, maxFile)
	}
	return data, err
}

func tokenOf(t *oauth2.Token) bearer.Token {
	return bearer.Token{Value: providers.NewSecret(t.AccessToken), Expires: t.Expiry}
}
