package secret

import (
	"strings"
	"testing"

	"github.com/manent/action/providers"
)

func TestField(t *testing.T) {
	const value = `{"user":"bob","password":"s3cr3t \"x\"","port":5432,"tls":true,"none":null,"more":{"a":"deeper"},"list":["deeper"],"empty":"","":"nameless"}`
	for field, want := range map[string]string{"user": "bob", "password": `s3cr3t "x"`, "port": "5432", "tls": "true", "": "nameless"} {
		if got, err := Field(providers.NewSecret(value), field); err != nil || got.Reveal() != want {
			t.Errorf("%q: %q, error %v, want %q", field, got.Reveal(), err, want)
		}
	}
	for field, want := range map[string]providers.Kind{
		"none": providers.Invalid, "more": providers.Invalid, "list": providers.Invalid,
		"empty": providers.NotFound, "User": providers.NotFound, "missing": providers.NotFound,
	} {
		refuse(t, value, field, want)
	}
	for _, text := range []string{"s3cr3t", `"s3cr3t"`, `["s3cr3t"]`, `{"user":"s3cr3t"`, "null", "", `{"user":"s3cr3t"}{}`} {
		refuse(t, text, "user", providers.Invalid)
	}
}

func refuse(t *testing.T, value, field string, want providers.Kind) {
	t.Helper()
	got, err := Field(providers.NewSecret(value), field)
	if err == nil || providers.KindOf(err) != want || providers.HintOf(err) == "" || !got.Empty() {
		t.Errorf("%q of %q: %v, error %v, want %v with a hint", field, value, got.Empty(), err, want)
	} else if strings.Contains(err.Error()+providers.HintOf(err), "s3cr3t") {
		t.Errorf("the value is in %q", err)
	}
}

func TestCutField(t *testing.T) {
	for ref, want := range map[string][2]string{
		"a/b": {"a/b", ""}, "a/b#c": {"a/b", "c"}, "a#b#c": {"a", "b#c"}, "#c": {"", "c"}, "a#": {"a", ""},
	} {
		rest, field, given := CutField(ref)
		if rest != want[0] || field != want[1] || given != strings.Contains(ref, "#") {
			t.Errorf("%q: %q, %q, %v", ref, rest, field, given)
		}
	}
}
