package config

import (
	"os"
	"slices"
	"testing"
)

// FuzzParse: no input makes the decoder crash; every problem has a place; and
// what has no errors can be pinned and read back unchanged.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/valid/*.yml", "testdata/wrong/*.yml"} {
		for _, file := range globbed(f, pattern) {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, []byte("rollout: {traffic: {steps: [100]}}"))
		}
	}
	f.Fuzz(func(t *testing.T, env, descriptor []byte) {
		c, problems := Parse(Source{"prod.yml", env}, &Source{"manent.yml", descriptor}, Options{Anonymous: true, Catalog: testCatalog()})
		for _, p := range problems {
			if p.Line < 1 || p.Col < 1 || p.Message == "" || p.File == "" {
				t.Errorf("a problem without a place: %+v", p)
			}
		}
		if !slices.Equal(problems, slices.Clone(problems).sorted()) {
			t.Error("problems out of order")
		}
		if len(problems.Of(Error)) == 0 {
			pinned(t, c)
		}
	})
}
