package identity

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/identity/identitytest"
)

// job is a job with these variables; what it has masked is in the second.
func job(t *testing.T, vars map[string]string) (Source, *[]string) {
	t.Helper()
	masked := &[]string{}
	s, ok := From(providers.Env{
		Getenv: func(name string) string { return vars[name] }, Redactor: &providers.Redactor{},
		Mask: func(s providers.Secret) error { *masked = append(*masked, s.Reveal()); return nil },
	})
	if !ok {
		t.Fatalf("no identity with %v", slices.Sorted(maps.Keys(vars)))
	}
	return s, masked
}

func with(vars map[string]string, more ...string) map[string]string {
	out := maps.Clone(vars)
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		vars      map[string]string
		ok, given bool
	}{
		"a shell":             {nil, false, false},
		"GitHub":              {map[string]string{"GITHUB_ACTIONS": "true"}, true, false},
		"GitHub, permitted":   {map[string]string{"GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_URL": "https://x"}, true, true},
		"GitLab":              {map[string]string{"GITLAB_CI": "true"}, true, false},
		"GitLab, id_tokens":   {map[string]string{"GITLAB_CI": "true", "MANENT_ID_TOKEN_VAULT": "x"}, true, true},
		"any other, prepared": {map[string]string{"MANENT_ID_TOKEN": "x"}, true, true},
	} {
		s, ok := From(providers.Env{Getenv: func(name string) string { return tc.vars[name] }})
		if ok != tc.ok || s.Given() != tc.given {
			t.Errorf("%s: %v, given %v", name, ok, s.Given())
		}
	}
	if _, ok := From(providers.Env{}); ok {
		t.Error("an identity of no environment")
	}
}

// On GitHub each call has a token of its own, for the audience, and it is
// hidden before anybody gets it.
func TestMints(t *testing.T) {
	p := identitytest.New(t)
	s, masked := job(t, p.GitHub())
	seen := map[string]bool{}
	for _, audience := range []string{"sts.amazonaws.com", "https://vault.example/a?b=c&d", "sts.amazonaws.com"} {
		token, err := s.Token(t.Context(), audience)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(token.Reveal(), audience); err != nil {
			t.Errorf("%s: %v", audience, err)
		}
		if seen[token.Reveal()] || !slices.Contains(*masked, token.Reveal()) || s.env.Redactor.Clean(token.Reveal()) != "[redacted]" {
			t.Errorf("%s: seen before %v, masked %v", audience, seen[token.Reveal()], len(*masked))
		}
		seen[token.Reveal()] = true
	}
	if want := []string{"sts.amazonaws.com", "https://vault.example/a?b=c&d", "sts.amazonaws.com"}; !slices.Equal(p.Asked(), want) {
		t.Errorf("asked for %q", p.Asked())
	}
}

func TestTokenThatCannotBeHidden(t *testing.T) {
	p := identitytest.New(t)
	s, _ := job(t, p.GitHub())
	s.env.Mask = func(providers.Secret) error { return errors.New("cannot mask") }
	if token, err := s.Token(t.Context(), "x"); err == nil || !token.Empty() {
		t.Errorf("it was handed out, error %v", err)
	}
}

func TestRefusals(t *testing.T) {
	p := identitytest.New(t)
	github := p.GitHub()
	for name, tc := range map[string]struct {
		vars     map[string]string
		audience string
		kind     providers.Kind
		says     string
		hint     string
	}{
		"no permission":      {map[string]string{"GITHUB_ACTIONS": "true"}, "aws", providers.Denied, `identity: token for "aws": the job was given no identity`, "permissions: {id-token: write}"},
		"no id_tokens":       {map[string]string{"GITLAB_CI": "true"}, "aws", providers.Denied, "was given no identity", `id_tokens: {MANENT_ID_TOKEN: {aud: "aws"}}`},
		"no audience":        {github, "", providers.Invalid, "no audience", "audience"},
		"the right has gone": {with(github, "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "0ther-t0ken"), "aws", providers.Denied, "status 401", "id-token: write"},
		"another address":    {with(github, "ACTIONS_ID_TOKEN_REQUEST_URL", p.URL+"/nowhere"), "aws", providers.NotFound, "status 404", ""},
		"plain http":         {with(github, "ACTIONS_ID_TOKEN_REQUEST_URL", "http://192.0.2.1/x"), "aws", providers.Invalid, "plain http", "as it is"},
		"for somebody else": {
			map[string]string{"GITLAB_CI": "true", "MANENT_ID_TOKEN_AWS": p.Mint(time.Hour, "azure", "b")}, "aws", providers.Denied,
			`no token for this audience: MANENT_ID_TOKEN_AWS is for "azure, b"`, `{aud: "aws"}`,
		},
		"expired":  {p.GitLab("aws", -time.Minute), "aws", providers.Denied, "MANENT_ID_TOKEN expired at 2", "timeout"},
		"no token": {map[string]string{"MANENT_ID_TOKEN": "hunter2hunter2"}, "aws", providers.Invalid, "MANENT_ID_TOKEN: not a JSON Web Token", "id_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			s, masked := job(t, tc.vars)
			token, err := s.Token(t.Context(), tc.audience)
			if providers.KindOf(err) != tc.kind || err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(providers.HintOf(err), tc.hint) {
				t.Errorf("%v (%v, hint %q), expected %v and %q", err, providers.KindOf(err), providers.HintOf(err), tc.kind, tc.says)
			}
			text := err.Error() + providers.HintOf(err)
			if !token.Empty() || len(*masked) > 0 || strings.Contains(text, "0ther-t0ken") || strings.Contains(text, "hunter2") || strings.Contains(text, "eyJ") {
				t.Errorf("token %v, masked %d, %s", !token.Empty(), len(*masked), text)
			}
		})
	}
}

// What the service answers in place of a token is never taken for one.
func TestAnswers(t *testing.T) {
	p := identitytest.New(t)
	other := p.Mint(time.Hour, "other")
	for body, kind := range map[string]providers.Kind{
		`{"value":"` + other + `"}`: providers.Unknown, `{"value":"abc"}`: providers.Unknown, `{}`: providers.Unknown, `null`: providers.Unknown,
		`<html>`: providers.Unknown, `{"value":`: providers.Unknown, strings.Repeat("x", maxAnswer+1): providers.Unknown,
	} {
		p.Answer(http.StatusOK, body)
		s, _ := job(t, p.GitHub())
		if token, err := s.Token(t.Context(), "aws"); err == nil || providers.KindOf(err) != kind || !token.Empty() || strings.Contains(err.Error(), other) {
			t.Errorf("%.40s: %v of kind %v", body, err, providers.KindOf(err))
		}
	}
	for status, kind := range map[int]providers.Kind{403: providers.Denied, 404: providers.NotFound, 400: providers.Invalid, 429: providers.Throttled, 503: providers.Unavailable} {
		p.Answer(status, `{"message":"no"}`)
		s, _ := job(t, p.GitHub())
		if token, err := s.Token(t.Context(), "aws"); providers.KindOf(err) != kind || err == nil || !token.Empty() {
			t.Errorf("%d: %v of kind %v", status, err, providers.KindOf(err))
		}
	}
	if len(p.Asked()) != 0 {
		t.Errorf("asked for %q", p.Asked())
	}
}

func TestCancelled(t *testing.T) {
	p := identitytest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, vars := range []map[string]string{p.GitHub(), p.GitLab("aws", time.Hour)} {
		s, _ := job(t, vars)
		if token, err := s.Token(ctx, "aws"); !errors.Is(err, context.Canceled) || !token.Empty() {
			t.Errorf("error %v", err)
		}
	}
}

// On GitLab the audience decides which token is taken, and its end is told
// from the token itself.
func TestVariables(t *testing.T) {
	p := identitytest.New(t)
	synctest.Test(t, func(t *testing.T) {
		vars := map[string]string{
			"GITLAB_CI": "true", "MANENT_ID_TOKEN": p.Mint(time.Hour, "https://gitlab.example"),
			"MANENT_ID_TOKEN_AWS": p.Mint(time.Minute, "aws", "azure"), "MANENT_ID_TOKEN_AZURE": p.Mint(time.Hour, "azure") + "\n",
		}
		s, masked := job(t, vars)
		for range 2 {
			for audience, variable := range map[string]string{"https://gitlab.example": "MANENT_ID_TOKEN", "aws": "MANENT_ID_TOKEN_AWS", "azure": "MANENT_ID_TOKEN_AWS"} {
				token, err := s.Token(t.Context(), audience)
				if err != nil || token.Reveal() != vars[variable] || !slices.Contains(*masked, token.Reveal()) {
					t.Errorf("%s: error %v", audience, err)
				}
			}
		}
		<-time.After(time.Minute - leeway)
		if _, err := s.Token(t.Context(), "aws"); providers.KindOf(err) != providers.Denied || !strings.Contains(err.Error(), "expired") {
			t.Errorf("error %v, expected that it has expired", err)
		}
		if token, err := s.Token(t.Context(), "azure"); err != nil || token.Reveal() != strings.TrimSpace(vars["MANENT_ID_TOKEN_AZURE"]) {
			t.Errorf("error %v, expected the token that is still good", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	p := identitytest.New(f)
	for _, text := range []string{"", "..", "a.b.c", p.Mint(time.Hour, "x"), p.Mint(time.Hour), "e30.eyJhdWQiOiJ4IiwiZXhwIjoxZTk5OX0.x", "e30.eyJhdWQiOlsieCJdLCJleHAiOiIxIn0.x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text)
		if err == nil && (len(c.Audience) == 0 || c.end().Year() < 1970) {
			t.Errorf("%q: %+v", text, c)
		}
		if err != nil && !errors.Is(err, errNoToken) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
