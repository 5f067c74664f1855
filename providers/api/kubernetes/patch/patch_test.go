package patch

import (
	"encoding/json"
	"testing"
)

func TestPatch(t *testing.T) {
	got, err := json.Marshal([]Op{
		Test(int64(3), "metadata", "generation"),
		Test(nil, "metadata", "annotations", "manent.io/track"),
		Add(map[string]any{"weight": 5}, "spec", "rules", "-"),
		Remove("spec", "rules", 2),
	})
	want := `[{"op":"test","path":"/metadata/generation","value":3},` +
		`{"op":"test","path":"/metadata/annotations/manent.io~1track","value":null},` +
		`{"op":"add","path":"/spec/rules/-","value":{"weight":5}},` +
		`{"op":"remove","path":"/spec/rules/2"}]`
	if err != nil || string(got) != want {
		t.Errorf("patch %s, %v, want %s", got, err, want)
	}
}
