package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/gate"
)

var update = flag.Bool("update", false, "write the generated pages of docs/")

// TestGenerated keeps the reference pages of docs/ what the code says.
func TestGenerated(t *testing.T) {
	pages := map[string]func(*testing.T, *app) string{
		"configuration.md": func(_ *testing.T, a *app) string { return config.Reference(a.host.Catalog()) },
		"schema.json":      schemaPage,
		"steps.md":         func(*testing.T, *app) string { return stepsPage() },
		"exit-codes.md":    func(*testing.T, *app) string { return exitPage() },
		"cli.md":           func(_ *testing.T, a *app) string { return cliPage(a.root()) },
		"json.md":          jsonPage,
		"gate.md":          func(*testing.T, *app) string { return gatePage() },
		"routers.md":       func(*testing.T, *app) string { return routersPage() },
	}
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			got := page(t, testApp(t))
			path := filepath.Join("../../../docs", name)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(have) != got {
				t.Errorf("docs/%s is stale: run make generate, and commit it", name)
			}
		})
	}
}

const generatedNote = "Generated from the code; do not edit.\n"

func schemaPage(t *testing.T, a *app) string {
	data, err := config.Schema(a.host.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func stepsPage() string {
	var b strings.Builder
	b.WriteString("# Steps\n\n" + generatedNote + `
Every kind of step, in the order in which a pass meets them. ` + "`manent plan`" + ` lists the
steps of your own configuration. A step that acts writes down what it is about
to do before it does it, so that it can be entered again after a crash.

| kind | what it does | acts | what undoes it |
|---|---|---|---|
`)
	for _, k := range runner.Kinds() {
		acts := "no"
		if k.Acts {
			acts = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Kind, cell(k.Does), acts, cell(k.Undo))
	}
	return b.String()
}

func gatePage() string {
	return "# The gate\n\n" + generatedNote + `
Every interval from the moment a share is in force, and at the end of its bake,
the gate takes a reading. It asks each metric system once, for both slots at the
same instant, and never over a window that began before the share was in force.
A metric ends as pass, fail, inconclusive or error; only a pass is a pass. The
rows below are judged by the code when this page is made.

` + gate.Truth() + `
A reading stores query, window, raw figures and the rule that decided, beside
the state. Comparative metrics are skipped at 100 % and on a first release, and
shown as skipped; a stage whose gate evaluated nothing is shown as ungated and
never called passed. After an approval one fresh green reading comes first.
`
}

func exitPage() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\n" + generatedNote + `
Failed, not yet, paused, conflict and "could not tell" are never mixed: a
pipeline may rely on the difference. The word follows "manent: " on stderr, a hint may follow on a line of its own,
and is ` + "`result`" + ` in the JSON document.

| code | word | meaning | what to do |
|---|---|---|---|
`)
	for _, c := range exitCodes() {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", c.Code, c.Word, cell(c.Meaning), cell(c.Do))
	}
	return b.String()
}

func cliPage(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n" + generatedNote + `
Results go to stdout, messages to stderr. Every verb takes ` + "`--json`" + `: then stdout
gets exactly one JSON document, see [json.md](json.md), and progress goes to
stderr. How calls end is in [exit-codes.md](exit-codes.md).

| verb | what it does |
|---|---|
`)
	verbs := leaves(root)
	for _, cmd := range verbs {
		name := strings.TrimPrefix(cmd.CommandPath(), "manent ")
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", name, anchor(cmd), cell(cmd.Short))
	}
	for _, cmd := range verbs {
		verbText(&b, cmd)
	}
	b.WriteString("\n## Platforms\n\nWho calls manent, recognized by itself; the first that fits counts.\n\n| platform | what it is |\n|---|---|\n")
	for _, p := range wire.Platforms() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Name, cell(p.Summary))
	}
	return b.String()
}

// leaves are the commands that do something.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.HasSubCommands() {
			out = append(out, leaves(sub)...)
		} else if sub.Name() != "help" {
			out = append(out, sub)
		}
	}
	return out
}

func anchor(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

func verbText(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n", cmd.CommandPath())
	text := cmd.Long
	if text == "" {
		text = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	parent := strings.TrimSuffix(cmd.CommandPath(), cmd.Name())
	fmt.Fprintf(b, "%s\n\n```\n%s%s\n```\n", text, parent, cmd.Use)
	if flags := cmd.NonInheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(b, "\n```\n%s```\n", flags)
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nFor example:\n\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
