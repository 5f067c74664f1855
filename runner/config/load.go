package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// MaxSize bounds a configuration file, in bytes.
const MaxSize = 1 << 20

// Options say what to load.
type Options struct {
	File       string  // the environment's file
	Descriptor string  // manent.yml of the application, "" for none
	State      string  // replaces the file's state, "" to leave it
	Anonymous  bool    // project, application and environment may be missing
	Catalog    Catalog // what exists and what is in this build
}

// Source is a file's content.
type Source struct {
	Name string
	Data []byte
}

// Load reads the files and returns the configuration with all defaults filled
// in, and every problem at once. With errors among the problems the
// configuration holds what could be read; it is not to be used but for
// showing.
func Load(o Options) (Config, Problems) {
	var problems Problems
	env := readFile(o.File, &problems)
	var descriptor *Source
	if o.Descriptor != "" {
		d := readFile(o.Descriptor, &problems)
		descriptor = &d
	}
	if len(problems) > 0 {
		return Config{}, problems
	}
	return Parse(env, descriptor, o)
}

func readFile(name string, problems *Problems) Source {
	fail := func(hint, format string, args ...any) Source {
		*problems = append(*problems, Problem{File: name, Message: fmt.Sprintf(format, args...), Hint: hint, Severity: Error})
		return Source{}
	}
	const hint = "the file of an environment is envconfig/<project>/<application>/<environment>.yml"
	info, err := os.Stat(name)
	if err != nil {
		return fail(hint, "cannot be opened: %v", errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() { // to open a pipe blocks until somebody writes to it
		return fail(hint, "cannot be read: not a regular file (%s)", info.Mode())
	}
	f, err := os.Open(name)
	if err != nil {
		return fail(hint, "cannot be opened: %v", errors.Unwrap(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	switch {
	case err != nil:
		return fail("", "cannot be read: %v", err)
	case len(data) > MaxSize:
		return fail("", "has more than %d bytes", MaxSize)
	}
	return Source{Name: name, Data: data}
}

// Parse is Load without the reading: the environment's file and, where there
// is one, the descriptor.
func Parse(env Source, descriptor *Source, o Options) (Config, Problems) {
	var cfg Config
	var problems Problems
	at := map[string]Position{}
	if descriptor != nil {
		d := &decoder{file: descriptor.Name, at: at, problems: &problems}
		d.descriptor(document(*descriptor, &problems), &cfg)
	}
	d := &decoder{file: env.Name, at: at, problems: &problems}
	n := document(env, &problems)
	if n == nil {
		return Config{}, problems.sorted()
	}
	d.value(n, reflect.ValueOf(&cfg).Elem(), "", 0)
	broken := slices.Clone(problems)
	fill(&cfg, func(path string) bool { _, given := at[path]; return given })
	if o.State != "" {
		cfg.State = o.State
		at["state"] = Position{File: "--state"}
	}
	c := &checker{cfg: &cfg, cat: o.Catalog, at: at, file: env.Name, broken: broken, problems: &problems}
	c.identity(env.Name, o.Anonymous)
	c.all()
	return cfg, problems.sorted()
}

// descriptor takes the rollout section of an application's descriptor. What
// belongs to operations is refused there.
func (d *decoder) descriptor(n *yaml.Node, cfg *Config) {
	if n == nil {
		return
	}
	fields := fieldsOf(reflect.TypeFor[Config]())
	d.keys(n, "", "a section with the key rollout", func(key, value *yaml.Node) bool {
		switch {
		case key.Value == "rollout":
			return d.value(value, reflect.ValueOf(&cfg.Rollout).Elem(), "rollout", 1)
		case contains([]string{"traffic", "targets", "clusters", "secrets"}, key.Value):
			delete(d.at, key.Value)
			return d.fail(key, key.Value, "move it to the environment's file", "%s is infrastructure, a descriptor may not have it", key.Value)
		case contains(keysOf(fields), key.Value):
			delete(d.at, key.Value)
			return d.fail(key, key.Value, "move it to the environment's file", "a descriptor has only rollout, found %s", key.Value)
		}
		return d.unknown(key, "", []string{"rollout"})
	})
}

// document parses a file to its only document; nil with a problem otherwise.
func document(s Source, problems *Problems) *yaml.Node {
	fail := func(line int, format string, args ...any) *yaml.Node {
		*problems = append(*problems, Problem{File: s.Name, Line: line, Col: 1, Message: fmt.Sprintf(format, args...), Severity: Error})
		return nil
	}
	if len(s.Data) > MaxSize {
		return fail(1, "has more than %d bytes", MaxSize)
	}
	var n, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(s.Data))
	err := dec.Decode(&n)
	if errors.Is(err, io.EOF) || err == nil && (len(n.Content) == 0 || n.Content[0].Tag == "!!null") {
		return fail(1, "the file is empty")
	}
	if err != nil {
		line, text := syntaxError(err)
		return fail(line, "not YAML: %s", text)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return fail(second.Line, "found a second document, expected one")
	case !errors.Is(err, io.EOF):
		line, text := syntaxError(err)
		return fail(line, "not YAML: %s", text)
	}
	return n.Content[0]
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)

func syntaxError(err error) (int, string) {
	m := yamlLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	return max(line, 1), cut(strings.TrimPrefix(err.Error(), m[0]))
}

// FromPath reads project, application and environment from
// envconfig/<project>/<application>/<environment>.yml; ok is false for a file
// elsewhere.
func FromPath(file string) (project, application, environment string, ok bool) {
	parts := strings.Split(filepath.ToSlash(filepath.Clean(file)), "/")
	if n := len(parts); n >= 4 && parts[n-4] == "envconfig" {
		for _, ext := range []string{".yml", ".yaml"} {
			if name, cut := strings.CutSuffix(parts[n-1], ext); cut {
				return parts[n-3], parts[n-2], name, true
			}
		}
	}
	return "", "", "", false
}
