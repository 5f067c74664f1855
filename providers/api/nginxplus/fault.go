package nginxplus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/httpx"
)

// code is one of the API's codes, as an error.
type code string

// Error returns it.
func (c code) Error() string { return string(c) }

// ErrGone is in the chain when NGINX has no server with the id.
const ErrGone = code("UpstreamServerNotFound")

const errVersion = code("UnknownVersion")

// meaning is what one of the API's codes means.
type meaning struct {
	kind providers.Kind
	hint string
}

func meaningOf(c code) (meaning, bool) {
	m, ok := map[code]meaning{
		"UpstreamNotFound":              {providers.NotFound, "expected the name of an upstream of the http block that has a zone"},
		ErrGone:                         {providers.NotFound, "NGINX was reloaded meanwhile; run this again"},
		errVersion:                      {providers.Invalid, "leave api_version out for the newest that both sides know"},
		"PathNotFound":                  {providers.NotFound, locationHint},
		"UpstreamStatic":                {providers.Invalid, "give the upstream a zone: without one its servers cannot be changed at run time"},
		"MethodDisabled":                {providers.Denied, "the API is read-only: write `api write=on;` in its location"},
		"UpstreamServerWeightImmutable": {providers.Invalid, "SRV records give this server its weight: list servers without service= in the upstream"},
		"UpstreamServerImmutable":       {providers.Invalid, ""},
		"UpstreamBadServerId":           {providers.Invalid, ""},
		"UpstreamBadWeight":             {providers.Invalid, ""},
		"UpstreamConfFormatError":       {providers.Invalid, "this version of the API may be too old: leave api_version out"},
		"UpstreamOutOfMemory":           {providers.Unavailable, "give the upstream's zone more memory"},
		"BodyReadError":                 {providers.Unavailable, ""},
		"JsonError":                     {providers.Invalid, ""},
	}[c]
	return m, ok
}

const locationHint = "expected in api_urls the address of the location with the api directive, such as https://lb1:8443/api"

// explain names what the API's own code says, and what helps. Of an answer
// only a code that is known gets into the text.
func explain(err error, resp *httpx.Response) error {
	f, ok := errors.AsType[*providers.Fault](err)
	if !ok || resp == nil {
		return err
	}
	told := *f
	var p problem
	if json.Unmarshal(resp.Body, &p) != nil || p.Error.Code == "" && p.Error.Status == 0 {
		return notItsOwn(told, resp.Status)
	}
	if m, known := meaningOf(p.Error.Code); known {
		told.Kind, told.Hint = m.kind, m.hint
		told.Err = fmt.Errorf("status %d, %w", resp.Status, p.Error.Code)
		return &told
	}
	switch resp.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		told.Hint = deniedHint
	case http.StatusNotFound:
		told.Hint = locationHint
	case http.StatusMethodNotAllowed:
		told.Hint = "does the location of api_urls have the directive `api write=on;`?"
	}
	return &told
}

const deniedHint = "credentials_secret names a secret user:password that the API's location lets in for GET and PATCH"

// notItsOwn is a refusal that is none of the API: of a proxy in front, or of
// another location. It says nothing about the upstream. Who is let in is
// decided by the location, with a page of NGINX.
func notItsOwn(f providers.Fault, status int) error {
	switch {
	case f.Kind == providers.Denied:
		f.Hint = deniedHint
	case f.Kind.Definite():
		f.Kind = providers.Unavailable
		f.Hint = "the answer is not of NGINX's API, which answers in JSON: " + locationHint
		if status >= 300 && status < 400 {
			f.Hint += "; redirects are not followed"
		}
	}
	return &f
}
