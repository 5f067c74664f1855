package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/httpx"
)

// refusal is how Entra refuses: by RFC 6749, with numbers.
// https://learn.microsoft.com/entra/identity-platform/reference-error-codes
type refusal struct {
	Error string `json:"error"`
	Codes []int  `json:"error_codes"`
}

// read explains a refused login.
func read(resp *httpx.Response) bearer.Refusal {
	var r refusal
	if json.Unmarshal(resp.Body, &r) != nil {
		return bearer.Refusal{}
	}
	has := func(codes ...int) bool {
		return slices.ContainsFunc(r.Codes, func(c int) bool { return slices.Contains(codes, c) })
	}
	switch {
	case has(700024):
		return bearer.Refusal{Expired: true, Hint: "the token that proves the identity has expired; is the clock of the runner right?"}
	case has(70021, 700211, 700212, 700213):
		return bearer.Refusal{Hint: "add a federated credential to the application whose issuer, subject and audience are exactly those of the job's token"}
	case has(7000215, 7000222):
		return bearer.Refusal{Hint: secretVar + " is wrong or has expired"}
	case has(700016, 90002, 900023):
		return bearer.Refusal{Hint: "is there such an application (" + clientVar + ") in this tenant (" + tenantVar + "), and is it the right cloud?"}
	case r.Error == "invalid_scope", r.Error == "invalid_resource":
		return bearer.Refusal{Hint: "the tenant does not know this system: is it the right cloud (AZURE_CLOUD)?"}
	}
	return bearer.Refusal{}
}

// chained reads an error of the SDK's default chain, which says in words what
// it tried. Words about a system that did answer may quote the answer and are
// left out.
func (l *login) chained(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return l.fault(providers.Unknown, fmt.Errorf("no answer: %w", ctx.Err()), "")
	}
	failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	switch {
	case !ok:
		return l.fault(providers.Denied, fmt.Errorf("no credentials of Azure: %s", l.excerpt(err.Error())),
			fmt.Sprintf("in a pipeline set %s and %s and let the job have an identity; elsewhere run `az login`", tenantVar, clientVar))
	case failed.RawResponse == nil:
		return l.fault(providers.Unknown, errors.New("unexpected answer, of which no token could be read"), "")
	}
	kind := httpx.KindOf(failed.RawResponse.StatusCode)
	if kind.Definite() {
		kind = providers.Denied
	}
	return l.fault(kind, fmt.Errorf("status %d", failed.RawResponse.StatusCode), "")
}

// excerpt is the beginning of a text on one line, cut when no secret is left.
func (l *login) excerpt(text string) string {
	const most = 400
	runes := []rune(strings.Join(strings.Fields(l.env.Redactor.Clean(text)), " "))
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(runes))
}

// maxFile is the longest file with a token that is read, in bytes.
const maxFile = 64 << 10

// fileToken reads a token that somebody else renews.
func (l *login) fileToken(path string) (providers.Secret, error) {
	data, err := readFile(path)
	if err != nil {
		return providers.Secret{}, l.fault(providers.Denied, fmt.Errorf("%s: %w", fileVar, err), "is the file there in this job?")
	}
	token := providers.NewSecret(strings.TrimSpace(string(data)))
	if token.Empty() {
		return providers.Secret{}, l.fault(providers.Denied, fmt.Errorf("%s: %.200q is empty", fileVar, path), "it holds a token that the cluster renews")
	}
	return token, l.env.Hide(token)
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
