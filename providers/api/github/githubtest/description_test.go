package githubtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// GitHub Enterprise Server 3.17 and 3.19 have the same operations, to the
// letter. To bring the description up to date, with VERSION in source below:
//
//	npm pack @octokit/openapi@VERSION && tar xzf octokit-openapi-VERSION.tgz
//	go test ./providers/api/github/githubtest -run TestDescription -openapi $PWD/package/generated/api.github.com.deref.json
const (
	source  = "npm package @octokit/openapi, generated/api.github.com.deref.json"
	version = "23.0.2"
)

func published(*testing.T) map[string][]string {
	return map[string][]string{
		"/repos/{owner}/{repo}/actions/runs/{run_id}/approvals":      {"get"},
		"/repos/{owner}/{repo}/deployments":                          {"get", "post"},
		"/repos/{owner}/{repo}/deployments/{deployment_id}/statuses": {"get", "post"},

		"/repos/{owner}/{repo}":                                                            {"get"},
		"/repos/{owner}/{repo}/environments":                                               {"get"},
		"/repos/{owner}/{repo}/environments/{environment_name}":                            {"get", "put"},
		"/repos/{owner}/{repo}/environments/{environment_name}/deployment-branch-policies": {"get", "post"},
		"/orgs/{org}/teams/{team_slug}":                                                    {"get"},
		"/users/{username}":                                                                {"get"},
	}
}

// reduced are answers of which only the properties that are read are kept:
// whole, they are ten times the rest of the description.
func reduced(path string) []string {
	return map[string][]string{
		"/repos/{owner}/{repo}":         {"full_name", "default_branch", "private"},
		"/orgs/{org}/teams/{team_slug}": {"id", "slug"},
		"/users/{username}":             {"id", "login", "type"},
	}[path]
}

// reduce keeps of an operation's answer 200 the named properties of the first
// schema that has them all.
func reduce(t *testing.T, op map[string]any, keep []string) {
	t.Helper()
	if keep == nil {
		return
	}
	media := op["responses"].(map[string]any)["200"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)
	whole := schema(media["schema"])
	for _, one := range append([]any{map[string]any(whole)}, list(whole["oneOf"])...) {
		properties, _ := schema(one)["properties"].(map[string]any)
		kept := map[string]any{}
		for _, name := range keep {
			if p, found := properties[name]; found {
				kept[name] = p
			}
		}
		if len(kept) == len(keep) {
			media["schema"] = map[string]any{"type": "object", "properties": kept, "required": keep}
			return
		}
	}
	t.Fatalf("no schema with %v", keep)
}

// TestDescription extracts the description when its flag is given, and always
// checks that the committed one holds just what is used.
func TestDescription(t *testing.T) {
	if *openapiFlag != "" {
		extract(t, *openapiFlag)
	}
	d, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	if d.Source != source || d.Version != version || d.License != "MIT" {
		t.Errorf("the description is of %q, version %q, license %q", d.Source, d.Version, d.License)
	}
	got := map[string][]string{}
	for path, methods := range d.Paths {
		got[path] = slices.Sorted(maps.Keys(methods))
		for method, op := range methods {
			if op.OperationID == "" || len(op.Parameters) == 0 || len(op.Responses) == 0 {
				t.Errorf("%s %s has an id %q, %d parameters and %d answers", method, path, op.OperationID, len(op.Parameters), len(op.Responses))
			}
		}
	}
	if d.basicError() == nil {
		t.Error("no schema of a refusal")
	}
	if diff := cmp.Diff(published(t), got); diff != "" {
		t.Errorf("operations:\n%s", diff)
	}
}

var openapiFlag = flag.String("openapi", "", "extract the description from this file")

func extract(t *testing.T, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Info struct {
			License struct{ Name string }
		}
		Paths map[string]map[string]map[string]any
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	paths := map[string]map[string]any{}
	for path, methods := range published(t) {
		paths[path] = map[string]any{}
		for _, method := range methods {
			op, found := whole.Paths[path][method]
			if !found {
				t.Fatalf("%s has no %s %s", from, method, path)
			}
			reduce(t, op, reduced(path))
			paths[path][method] = prose(op, false)
		}
	}
	out := map[string]any{
		"source": source, "version": version, "license": whole.Info.License.Name,
		"paths": paths,
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(out); err != nil {
		t.Fatal(err)
	}
	openapi = text.Bytes()
	if err := os.WriteFile("openapi.json", openapi, 0o644); err != nil {
		t.Fatal(err)
	}
}

// prose leaves out what only people read. The names of properties are kept,
// whatever they are.
func prose(value any, names bool) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = prose(item, false)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, below := range v {
			text := slices.Contains([]string{"description", "summary", "title", "example", "examples", "externalDocs", "tags", "headers"}, key) || strings.HasPrefix(key, "x-")
			if names || !text {
				out[key] = prose(below, key == "properties" && !names)
			}
		}
		return out
	}
	return value
}
