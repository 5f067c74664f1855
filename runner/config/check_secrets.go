package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// secrets checks where each secret comes from, that every name that is used is
// defined, and the other way round.
func (c *checker) secrets() {
	defined := map[string]bool{}
	for i, s := range c.cfg.Secrets {
		path := fmt.Sprintf("secrets[%d].ref", i)
		defined[s.Name] = true
		if !c.missing(path, s.Ref) {
			c.reference(path, s.Ref)
		}
	}
	used := map[string]bool{}
	for _, r := range c.references() {
		used[r.name] = true
		if !defined[r.name] {
			c.undefined(r)
		}
	}
	for i, s := range c.cfg.Secrets {
		if s.Name != "" && !used[s.Name] {
			c.warn(fmt.Sprintf("secrets[%d].name", i), "leave it out, or name it in a setting", "secret %s is not used", show(s.Name))
		}
	}
}

// reference checks a scheme. The text is not shown: it may be the secret
// itself, put into the wrong place.
func (c *checker) reference(path, ref string) {
	scheme, rest, ok := strings.Cut(ref, ":")
	if _, exists := Lookup(c.cat.Secrets, scheme); !ok || !exists {
		c.wrong(path, "", "the reference begins with no known source, expected one of %s:", strings.Join(namesOf(c.cat.Secrets, false), ":, "))
		return
	}
	known(c, c.cat.Secrets, "source of secrets", scheme, path)
	if strings.TrimSpace(rest) == "" {
		c.wrong(path, "", "nothing behind %s:", scheme)
	}
}

// undefined does not show the name: it may be the secret itself.
func (c *checker) undefined(r secretUse) {
	hint := didYouMean(r.name, namesIn(c.cfg.Secrets, func(s Secret) string { return s.Name }))
	if hint == "" {
		hint = "define it in secrets, with a name and a reference"
	}
	c.wrong(r.path, hint, "the secret named here is not defined")
}

type secretUse struct{ path, name string }

// references lists every secret that is used, by the settings of type secret;
// of a provider that is not in this build those called so.
func (c *checker) references() []secretUse {
	var out []secretUse
	for _, b := range c.allBlocks() {
		for key, value := range b.settings {
			path := c.settingPath(b, key)
			if several, ok := value.(map[string]any); ok && isSetting(b.entry, key, "secrets") {
				for inner, name := range several {
					out = append(out, secretUse{path + "." + inner, fmt.Sprint(name)})
				}
			}
			if name, ok := value.(string); ok && name != "" && isSecret(b.entry, key) {
				out = append(out, secretUse{path, name})
			}
		}
	}
	for i, cb := range c.cfg.Callbacks {
		if cb.Secret != "" {
			out = append(out, secretUse{fmt.Sprintf("callbacks[%d].secret", i), cb.Secret})
		}
	}
	return out
}

func isSecret(e Entry, key string) bool {
	if !e.InBuild {
		return strings.HasSuffix(key, "_secret")
	}
	return isSetting(e, key, "secret")
}

func isSetting(e Entry, key, typ string) bool {
	return slices.ContainsFunc(e.Fields, func(f providers.Field) bool { return f.Name == key && f.Type == typ })
}
