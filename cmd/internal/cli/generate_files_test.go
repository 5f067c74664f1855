package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const pinned = "manent/action@0123456789abcdef0123456789abcdef01234567"

// configured writes a configuration below the working directory.
func configured(t *testing.T, project, environment string) string {
	t.Helper()
	text := strings.NewReplacer("project: shop", "project: "+project, "environment: prod", "environment: "+environment).Replace(setUpConfig)
	file := "envconfig/" + project + "/web/" + environment + ".yml"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// generating makes one call of generate in the working directory.
func generating(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	a := newApp("test", func(string) string { return "" }, dir)
	a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	code, out, errs := called(t, a, append([]string{"generate"}, args...)...)
	return code, out + errs
}

// TestGenerateDropsNothing: a call for another environment alone leaves the
// files alone as long as the first one's configuration is there.
func TestGenerateDropsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	prod, staging := configured(t, "shop", "prod"), configured(t, "shop", "staging")
	code, text := generating(t, "github", "-c", prod, "--action", pinned, "--out", ".")
	asked(t, code, 0, text)
	const decide = ".github/workflows/manent-decide.yml"
	before, err := os.ReadFile(decide)
	if err != nil {
		t.Fatal(err)
	}
	whole := "manent generate github -c " + prod + " " + staging + " --action " + pinned
	for _, last := range [][]string{{"--out", "."}, {"--check"}} {
		code, text = generating(t, append([]string{"github", "-c", staging, "--action", pinned}, last...)...)
		asked(t, code, exitUsage, text, decide+" is also about "+prod, "`"+whole+" "+strings.Join(last, " ")+"`")
	}
	if now, err := os.ReadFile(decide); err != nil || !bytes.Equal(now, before) {
		t.Errorf("a refused call has written: %v", err)
	}
	code, text = generating(t, append(strings.Fields(whole)[2:], "--out", ".")...)
	asked(t, code, 0, text, decide+" is written")
	code, text = generating(t, append(strings.Fields(whole)[2:], "--check")...)
	asked(t, code, 0, text)
	code, text = generating(t, "github", "-c", staging, prod, "--action", pinned, "--out", ".") // another order leaves nothing out
	asked(t, code, 0, text)
	if err := os.Remove(prod); err != nil {
		t.Fatal(err)
	}
	code, text = generating(t, "github", "-c", staging, "--action", pinned, "--out", ".")
	asked(t, code, 0, text, decide+" is written")
}

// TestGenerateKeepsOtherProjects: GitLab's files of two projects can have one
// name, those of two environments cannot.
func TestGenerateKeepsOtherProjects(t *testing.T) {
	t.Chdir(t.TempDir())
	first, second, other := configured(t, "shop", "prod"), configured(t, "bank", "prod"), configured(t, "shop", "test")
	for _, file := range []string{first, other} {
		code, text := generating(t, "gitlab", "-c", file, "--out", ".")
		asked(t, code, 0, text)
	}
	for _, last := range [][]string{{"--out", "."}, {"--check"}} {
		code, text := generating(t, append([]string{"gitlab", "-c", second}, last...)...)
		asked(t, code, exitUsage, text, "is also about "+first)
	}
	code, text := generating(t, "gitlab", "-c", first, second, "--out", ".")
	asked(t, code, exitUsage, text, "would both be manent-web-prod.yml", "give their applications different names")
	code, text = generating(t, "gitlab", "-c", first, "--check")
	asked(t, code, 0, text)
}

// TestGenerateNamesTheCommit where the build does not know one.
func TestGenerateNamesTheCommit(t *testing.T) {
	if commit, modified := commitOf(); commit != "" && !modified {
		t.Fatalf("a test is built from commit %s, so that this proves nothing", commit)
	}
	t.Chdir(t.TempDir())
	code, text := generating(t, "github", "-c", configured(t, "shop", "prod"), "--out", ".")
	asked(t, code, exitUsage, text, "this build does not know the commit", "--action manent/action@COMMIT", "git ls-remote https://github.com/manent/action 'refs/tags/v*'")
}

// TestGenerateSaysHowItWasCalled: the head's command writes the same files.
func TestGenerateSaysHowItWasCalled(t *testing.T) {
	t.Chdir(t.TempDir())
	file := configured(t, "shop", "prod")
	code, text := generating(t, "gitlab", "-c", file, "--runner-tags", "shop,the rack", "--image", "example.test/manent:1", "--out", ".")
	asked(t, code, 0, text)
	written, err := os.ReadFile(".gitlab/manent-web-prod.yml")
	if want := "# Written by: manent generate gitlab -c " + file + " --runner-tags 'shop,the rack' --image example.test/manent:1 --out .\n"; err != nil || !strings.Contains(string(written), want) || !strings.Contains(string(written), `tags: [shop, "the rack"]`) {
		t.Errorf("the file does not say %q: %v\n%.600s", want, err, written)
	}
}

// TestVerbIsTheWholeOne: a program tells setup github from generate github.
func TestVerbIsTheWholeOne(t *testing.T) {
	for _, verb := range []string{"generate github", "setup gitlab", "status"} {
		_, out, _ := called(t, testApp(t), append(strings.Fields(verb), "--json")...)
		var doc callJSON
		if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Verb != verb || doc.Exit != exitUsage {
			t.Errorf("%s: verb %q, exit %d, %v", verb, doc.Verb, doc.Exit, err)
		}
	}
}

// TestFirstRolloutOfThePages: what docs/github.md and docs/gitlab.md begin with
// is a configuration that is whole, and their calls write its pipeline.
func TestFirstRolloutOfThePages(t *testing.T) {
	for platform, last := range map[string][]string{"github": {"--action", pinned}, "gitlab": nil} {
		page, err := os.ReadFile(filepath.Join(top, "docs", platform+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(page), "\n   ```yaml\n")
		text, _, found := strings.Cut(rest, "   ```\n")
		call := regexp.MustCompile(`(?m)^   manent (generate ` + platform + ` .*) --out \.$`).FindStringSubmatch(string(page))
		if !found || call == nil {
			t.Fatalf("docs/%s.md has no configuration or no call that writes", platform)
		}
		t.Run(platform, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll(filepath.Dir(setUpFile), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(setUpFile, []byte(strings.ReplaceAll(text, "\n   ", "\n")[3:]), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"validate", "-c", setUpFile}, {"plan", "-c", setUpFile}, append(append(strings.Fields(call[1]), last...), "--out", ".")} {
				dir, err := os.Getwd()
				if err != nil {
					t.Fatal(err)
				}
				a := newApp("test", func(string) string { return "" }, dir)
				a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
				code, out, errs := called(t, a, args...)
				asked(t, code, 0, out+errs)
			}
		})
	}
}
