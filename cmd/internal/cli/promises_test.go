package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/manent/action/runner/config"
)

const top = "../../.."

// TestPromisesHaveTests: docs/promises.md names tests that are there.
func TestPromisesHaveTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "docs/promises.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\|.*\\| `(\\w+)` \\| `([\\w/]+)` \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 15 {
		t.Fatalf("%d rows with a test, expected at least 15", len(rows))
	}
	for _, row := range rows {
		if !declares(t, filepath.Join(top, row[2]), row[1]) {
			t.Errorf("docs/promises.md names %s in %s, which is not there", row[1], row[2])
		}
	}
}

func declares(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// TestDocumentedConfigurations: what README and docs show as a configuration
// is one: validate finds no problem in it, and warns of nothing that the page
// does not quote.
func TestDocumentedConfigurations(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(top, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], "\nrollout:") {
				continue
			}
			seen++
			a := testApp(t)
			_, problems := config.Parse(config.Source{Name: filepath.Base(page), Data: []byte(block[1])}, nil,
				config.Options{Anonymous: true, Catalog: a.host.Catalog()})
			for _, p := range problems {
				if p.Severity != config.Warning || !strings.Contains(string(text), p.Message) {
					t.Errorf("%s, which does not speak of it: %s\n%s", page, p, block[1])
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("%d configurations found, expected at least 3", seen)
	}
}

// TestReadmeVerbs: every verb that README and quickstart call is there.
func TestReadmeVerbs(t *testing.T) {
	a := testApp(t)
	a.screen = a.newScreen(a.stdout)
	for _, page := range []string{"README.md", "docs/quickstart.md", "docs/concepts.md", "docs/nginx.md", "docs/nginx-plus.md", "docs/external.md", "docs/analysis.md", "docs/github.md", "docs/gitlab.md"} {
		text, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile("(?m)(?:^|`)manent ([a-z]+)").FindAllStringSubmatch(codeOf(string(text)), -1) {
			if cmd, _, err := a.root().Find([]string{call[1]}); err != nil || cmd.Name() != call[1] {
				t.Errorf("%s calls manent %s, which is no verb", page, call[1])
			}
		}
	}
}

// codeOf is a page without its prose.
func codeOf(page string) string {
	return strings.Join(regexp.MustCompile("(?s)```sh\n.*?```|`[^`\n]+`").FindAllString(page, -1), "\n")
}
