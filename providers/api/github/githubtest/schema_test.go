package githubtest

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestWhatIsRefused holds the check itself: one that lets everything through
// would prove nothing of those who use it.
func TestWhatIsRefused(t *testing.T) {
	cases := map[string]struct{ method, path, query, body, says string }{
		"unknown path":       {"GET", "/repos/o/r/deployment", "", "", "not described"},
		"unknown method":     {"PUT", "/repos/o/r/deployments", "", "", "no method"},
		"run id":             {"GET", "/repos/o/r/actions/runs/last/approvals", "", "", "expected an integer"},
		"empty owner":        {"GET", "/repos//r/deployments", "", "", "owner is empty"},
		"unknown query":      {"GET", "/repos/o/r/deployments", "env=prod", "", "env is not described"},
		"query type":         {"GET", "/repos/o/r/deployments", "per_page=all", "", "expected an integer"},
		"query twice":        {"GET", "/repos/o/r/deployments", "task=a&task=b", "", "given 2 times"},
		"body of a read":     {"GET", "/repos/o/r/deployments", "", "{}", "takes no body"},
		"no body":            {"POST", "/repos/o/r/deployments", "", "", "end of JSON"},
		"missing ref":        {"POST", "/repos/o/r/deployments", "", `{}`, "has no ref"},
		"unknown property":   {"POST", "/repos/o/r/deployments", "", `{"ref":"a","env":"b"}`, "body.env is not described"},
		"type of a property": {"POST", "/repos/o/r/deployments", "", `{"ref":"a","auto_merge":"false"}`, "body.auto_merge"},
		"type of an item":    {"POST", "/repos/o/r/deployments", "", `{"ref":"a","required_contexts":[1]}`, "required_contexts[0]"},
		"null":               {"POST", "/repos/o/r/deployments", "", `{"ref":null}`, "body.ref"},
		"none of several":    {"POST", "/repos/o/r/deployments", "", `{"ref":"a","payload":7}`, "fits 0 of 2"},
		"not of the list":    {"POST", "/repos/o/r/deployments/7/statuses", "", `{"state":"waiting"}`, "expected one of"},
	}
	d, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			op, _, err := d.Find(tc.method, tc.path)
			if err == nil {
				query, bad := url.ParseQuery(tc.query)
				if bad != nil {
					t.Fatal(bad)
				}
				err = op.CheckQuery(query)
			}
			if err == nil {
				err = op.CheckRequest([]byte(tc.body))
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, expected %q", err, tc.says)
			}
		})
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	d, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	op := d.Paths["/repos/{owner}/{repo}/deployments/{deployment_id}/statuses"]["post"]
	good := (&deployment{id: 7}).show(status{id: 8, State: "success"})
	cases := map[string]struct {
		status int
		change func(map[string]any)
		says   string
	}{
		"as described":  {201, func(map[string]any) {}, ""},
		"other status":  {200, func(map[string]any) {}, "does not answer 200"},
		"missing":       {201, func(v map[string]any) { delete(v, "state") }, "has no state"},
		"too long":      {201, func(v map[string]any) { v["description"] = strings.Repeat("x", 141) }, "has 141 characters"},
		"no URL":        {201, func(v map[string]any) { v["log_url"] = "run" }, "expected a uri"},
		"no time":       {201, func(v map[string]any) { v["created_at"] = "today" }, "expected a date-time"},
		"no integer":    {201, func(v map[string]any) { v["id"] = 7.5 }, "type integer"},
		"undescribed":   {201, func(v map[string]any) { v["ok"] = true }, "ok is not described"},
		"other refusal": {404, func(map[string]any) {}, "is not described"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			value := map[string]any{}
			for key, v := range good {
				value[key] = v
			}
			tc.change(value)
			body, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			err = d.CheckAnswer(op, tc.status, body)
			if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("error %v, expected %q", err, tc.says)
			}
		})
	}
}

// TestKeywords: what the check does not understand it must not pass over.
func TestKeywords(t *testing.T) {
	for _, s := range []Schema{{"pattern": "^a"}, {"format": "ipv4"}, {"minimum": 3.0}} {
		if err := s.Check("x", "a"); err == nil || !strings.Contains(err.Error(), "not understood") {
			t.Errorf("%v: error %v, expected it to be refused", s, err)
		}
	}
}
