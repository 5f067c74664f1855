package providers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Env is what a provider gets from outside besides its settings. It is the
// only way to the process's environment, so that tests decide all of it.
type Env struct {
	Getenv func(string) string                                    // environment variables
	Secret func(ctx context.Context, name string) (Secret, error) // a secret by its configured name
	Dir    string                                                 // workspace: relative paths start here and stay inside
	Log    func(format string, args ...any)                       // one line of progress; never secrets

	// Tell writes one line for the pipeline's platform as it is, not cleaned:
	// it may name a secret that the platform is to hide. May be nil.
	Tell func(line string) error

	Redactor *Redactor // knows every secret resolved so far; cleans what a program prints; may be nil

	// Mask tells the pipeline's platform of a secret. May be nil.
	Mask func(Secret) error

	Targets []Target // of the environment, as configured
}

// Target is one server of the environment, for providers that act on servers.
type Target struct {
	Host   string
	Port   int // of the application, 0 for none
	Labels map[string]string
}

// Hide keeps a secret that a provider came by itself (the token of a session)
// out of whatever is printed from now on. One that cannot be hidden is not to
// be used.
func (e Env) Hide(s Secret) error {
	if e.Redactor != nil {
		e.Redactor.Add(s)
	}
	if e.Mask == nil {
		return nil
	}
	return e.Mask(s)
}

// Spec describes one implementation of a contract T and builds it.
type Spec[T any] struct {
	Name     string  // name in the configuration, "haproxy"
	Summary  string  // one line for the documentation
	Unproven string  // what no real server has seen, "" when all was
	Fields   []Field // settings it understands
	Build    func(Env, map[string]any) (T, error)
}

// Field is one setting, for validation, documentation and the JSON Schema.
type Field struct {
	Name     string // key in the settings block
	Type     string // string, integer, number, boolean, duration, list, map, secret, secrets (a map)
	Default  string // as written in the configuration; "" for none
	Help     string // one line with unit and range
	Required bool
	Enum     []string // allowed values, empty for any
}

// Define makes a Spec from a settings struct C and a constructor. C's fields
// carry tags: name, default, help, enum (comma separated), required ("true").
// Supported types: string, int, float64, bool, time.Duration, []string,
// map[string]string, SecretRef and map[string]SecretRef. The constructor returns a usable value or
// an error, never a half-built one; it does no I/O.
func Define[C, T any](name, summary string, build func(Env, C) (T, error)) Spec[T] {
	return Spec[T]{
		Name: name, Summary: summary, Fields: fieldsOf(reflect.TypeFor[C]()),
		Build: func(env Env, settings map[string]any) (T, error) {
			var c C
			var none T
			if err := decode(settings, reflect.ValueOf(&c).Elem()); err != nil {
				return none, &Fault{Provider: name, Op: "settings", Kind: Invalid, Err: err}
			}
			return build(env, c)
		},
	}
}

// SecretRef is the name of a secret of the configuration, resolved when used.
type SecretRef string

// Resolve asks env for the secret; an empty name is an empty secret.
func (r SecretRef) Resolve(ctx context.Context, env Env) (Secret, error) {
	if r == "" {
		return Secret{}, nil
	}
	return env.Secret(ctx, string(r))
}

func fieldsOf(t reflect.Type) []Field {
	fields := make([]Field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		f := Field{
			Name: tag.Get("name"), Type: typeName(t.Field(i).Type), Default: tag.Get("default"),
			Help: tag.Get("help"), Required: tag.Get("required") == "true",
		}
		if enum := tag.Get("enum"); enum != "" {
			f.Enum = strings.Split(enum, ",")
		}
		fields = append(fields, f)
	}
	return fields
}

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[SecretRef]():
		return "secret"
	case reflect.TypeFor[[]string]():
		return "list"
	case reflect.TypeFor[map[string]string]():
		return "map"
	case reflect.TypeFor[map[string]SecretRef]():
		return "secrets"
	}
	switch t.Kind() {
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	}
	panic("providers: setting of unsupported type " + t.String())
}

// CheckSettings returns every problem of a settings block: unknown, missing
// and ill-typed keys, by key ("" for the block itself).
func CheckSettings(fields []Field, settings map[string]any) map[string]string {
	problems := map[string]string{}
	known := map[string]Field{}
	for _, f := range fields {
		known[f.Name] = f
		if _, given := settings[f.Name]; f.Required && !given {
			problems[""] = strings.TrimPrefix(problems[""]+", ", ", ") + fmt.Sprintf("setting %q is missing", f.Name)
		}
	}
	for key, value := range settings {
		f, ok := known[key]
		if !ok {
			problems[key] = fmt.Sprintf("unknown setting %q, expected one of %s", key, strings.Join(names(fields), ", "))
			continue
		}
		if _, err := convert(f.Type, value); err != nil {
			problems[key] = err.Error()
		} else if len(f.Enum) > 0 && !contains(f.Enum, fmt.Sprint(value)) {
			problems[key] = fmt.Sprintf("%v, expected one of %s", value, strings.Join(f.Enum, ", "))
		}
	}
	return problems
}

func names(fields []Field) []string {
	out := make([]string, 0, len(fields))
	for _, f := range fields {
		out = append(out, f.Name)
	}
	sort.Strings(out)
	return out
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func decode(settings map[string]any, into reflect.Value) error {
	fields := fieldsOf(into.Type())
	for key, problem := range CheckSettings(fields, settings) {
		return fmt.Errorf("%s", strings.TrimPrefix(key+": "+problem, ": "))
	}
	for i, f := range fields {
		value, given := settings[f.Name]
		if !given {
			if f.Default == "" {
				continue
			}
			value = f.Default
		}
		converted, err := convert(f.Type, value)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		into.Field(i).Set(reflect.ValueOf(converted).Convert(into.Field(i).Type()))
	}
	return nil
}

// convert accepts a value as YAML gives it, and the same thing as a string,
// since settings are often quoted ("true", "5s", "a, b").
func convert(typ string, value any) (any, error) {
	text := fmt.Sprint(value)
	var out any
	var err error
	switch typ {
	case "string", "secret":
		if _, ok := value.(string); !ok {
			err = fmt.Errorf("%v is not text", value)
		}
		out = text
	case "integer":
		out, err = strconv.Atoi(text)
	case "number":
		out, err = strconv.ParseFloat(text, 64)
	case "boolean":
		out, err = strconv.ParseBool(text)
	case "duration":
		out, err = time.ParseDuration(text)
	case "list":
		return toList(value)
	case "map":
		return toMap(value)
	case "secrets":
		return toSecrets(value)
	}
	if err != nil {
		return nil, fmt.Errorf("%q, expected %s", text, article(typ))
	}
	return out, nil
}

func article(typ string) string {
	switch typ {
	case "integer":
		return "an integer"
	case "duration":
		return "a duration such as 30s or 5m"
	}
	return "a " + typ
}

func toList(value any) ([]string, error) {
	var out []string
	switch v := value.(type) {
	case string:
		for _, part := range strings.Split(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	case []any:
		for _, item := range v {
			out = append(out, fmt.Sprint(item))
		}
	case []string:
		out = v
	default:
		return nil, fmt.Errorf("%v, expected a list or text with commas", value)
	}
	return out, nil
}

func toMap(value any) (map[string]string, error) {
	switch v := value.(type) {
	case map[string]string:
		return v, nil
	case map[string]any:
		out := make(map[string]string, len(v))
		for key, item := range v {
			out[key] = fmt.Sprint(item)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%v, expected a map of text", value)
}

func toSecrets(value any) (map[string]SecretRef, error) {
	names, err := toMap(value)
	out := make(map[string]SecretRef, len(names))
	for key, name := range names {
		out[key] = SecretRef(name)
	}
	return out, err
}

// CheckURL refuses a URL that is not absolute http(s), carries credentials,
// or is plain http to another machine without allowHTTP: a plain-http URL
// needs an explicit setting.
func CheckURL(raw string, allowHTTP bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL", raw)
	case u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, fmt.Errorf("%q, expected http://HOST or https://HOST", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%q carries credentials, expected a secret's name in a *_secret setting", u.Redacted())
	case u.Scheme == "http" && !allowHTTP && !loopback(u.Hostname()):
		return nil, fmt.Errorf("%q is plain http to another machine, expected https or allow_http: true", u.Redacted())
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
