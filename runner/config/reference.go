package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/manent/action/providers"
)

// Row is one key of the configuration, for documentation.
type Row struct {
	Path    string // rollout.health.metrics[].alpha
	Type    string
	Default string // literally, or the rule in words; "" for none
	Enum    []string
	Help    string
	Section bool // it has keys of its own
}

// Rows lists every key, sections before their keys.
func Rows() []Row { return rows(reflect.TypeFor[Config](), "") }

func rows(t reflect.Type, path string) []Row {
	var out []Row
	for _, f := range fieldsOf(t) {
		child := join(path, f.Key)
		row := Row{Path: child, Type: word(f.Type), Default: f.Default, Enum: f.Enum, Help: f.Help}
		if row.Default == "" {
			row.Default = f.Rule
		}
		inner := bare(f.Type)
		if inner.Kind() == reflect.Slice && isSection(inner.Elem()) {
			inner, child = inner.Elem(), child+"[]"
		}
		row.Section = isSection(inner)
		out = append(out, row)
		if row.Section {
			out = append(out, rows(inner, child)...)
		}
	}
	return out
}

// Reference is the page about all keys and all settings, in Markdown.
func Reference(cat Catalog) string {
	var b strings.Builder
	b.WriteString("# Configuration reference\n\n")
	b.WriteString("Generated from the code; do not edit. A key that is not listed here is an error.\n\n## Top level\n")
	section(&b, "", Rows())
	for _, kind := range providerKinds(cat) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", kind.title, kind.where)
		var absent []string
		for _, e := range kind.entries {
			if e.InBuild {
				settingsTable(&b, e)
			} else {
				absent = append(absent, "`"+e.Name+"`")
			}
		}
		if len(absent) > 0 {
			fmt.Fprintf(&b, "\nNot in this build: %s.\n", strings.Join(absent, ", "))
		}
	}
	return b.String()
}

// section writes the table of the keys right below path, then the sections
// among them.
func section(b *strings.Builder, path string, all []Row) {
	b.WriteString("\n| key | type | default | meaning |\n|---|---|---|---|\n")
	var below []Row
	for _, r := range all {
		key, ok := strings.CutPrefix(r.Path, path)
		if !ok || strings.Contains(key, ".") {
			continue
		}
		line(b, key, r.Type, r.Default, r.Help, r.Enum)
		if r.Section {
			below = append(below, r)
		}
	}
	for _, r := range below {
		inner := r.Path
		if strings.HasPrefix(r.Type, "list") {
			inner += "[]"
		}
		fmt.Fprintf(b, "\n## `%s`\n\n%s.\n", inner, capital(r.Help))
		section(b, inner+".", all)
	}
}

func line(b *strings.Builder, key, typ, def, help string, enum []string) {
	if def != "" {
		def = "`" + def + "`"
	}
	help = strings.ReplaceAll(help, "<", `\<`)
	if len(enum) > 0 {
		help += ": `" + strings.Join(enum, "`, `") + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", key, typ, escapeCell(def), escapeCell(help))
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func escapeCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func settingsTable(b *strings.Builder, e Entry) {
	fmt.Fprintf(b, "\n### `%s`\n\n", e.Name)
	if e.Summary != "" {
		fmt.Fprintf(b, "%s.\n\n", capital(strings.TrimSuffix(e.Summary, ".")))
	}
	if len(e.Fields) == 0 {
		b.WriteString("No settings.\n")
		return
	}
	b.WriteString("| setting | type | default | meaning |\n|---|---|---|---|\n")
	for _, f := range e.Fields {
		line(b, f.Name, f.Type, f.Default, helpOf(f), f.Enum)
	}
}

func helpOf(f providers.Field) string {
	if f.Required {
		return "required; " + f.Help
	}
	return f.Help
}

type providerKind struct {
	title   string
	where   string
	entries []Entry
}

func providerKinds(cat Catalog) []providerKind {
	return []providerKind{
		{"Plugins", "`plugin.name`, with settings in `plugin.settings`.", common(cat.Plugins)},
		{"Routers", "`traffic.router.provider`, with settings in `traffic.router.settings`. What each can do is in [routers.md](routers.md).", common(cat.Routers)},
		{"Pools", "`traffic.pool.provider`, with settings in `traffic.pool.settings`.", cat.Pools},
		{"Metric systems", "`provider` of a metric, with settings in `rollout.providers.<name>`.", common(cat.Metrics)},
		{"Secrets", "The scheme of `secrets[].ref`, before the colon.", cat.Secrets},
		{"Stores", "The scheme of `state`.", cat.Stores},
	}
}

func common[E entrylike](list []E) []Entry {
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = e.entry()
	}
	return out
}
