package nginx

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []Directive
	}{
		{"nothing", " \n\t# only a comment", []Directive{}},
		{"simple", "user www-data;", []Directive{{Name: "user", Args: []string{"www-data"}, Line: 1}}},
		{"no arguments, then a block", "ip_hash;\nevents {}\n", []Directive{
			{Name: "ip_hash", Args: []string{}, Line: 1}, {Name: "events", Args: []string{}, Block: []Directive{}, Line: 2},
		}},
		{"nested", "http {\n  upstream a {\n    server b:80 weight=2; # why\n  }\n}", []Directive{{
			Name: "http", Args: []string{}, Line: 1, Block: []Directive{{
				Name: "upstream", Args: []string{"a"}, Line: 2, Block: []Directive{
					{Name: "server", Args: []string{"b:80", "weight=2"}, Line: 3},
				},
			}},
		}}},
		{"quotes", `map "" $x { default "a b;{}#"; 'it''s' y; }`, nil},
		{"quoted", `map "" $x { default "a b;{}#\"\\.\.\t"; 'say "x"' y; }`, []Directive{{
			Name: "map", Args: []string{"", "$x"}, Line: 1, Block: []Directive{
				{Name: "default", Args: []string{"a b;{}#\"\\.\\.\t"}, Line: 1}, {Name: `say "x"`, Args: []string{"y"}, Line: 1},
			},
		}}},
		{"variables in braces", "set $a ${b}c;", []Directive{{Name: "set", Args: []string{"$a", "${b}c"}, Line: 1}}},
		{"marks are not words when quoted", `a ";" "}" "{";`, []Directive{{Name: "a", Args: []string{";", "}", "{"}, Line: 1}}},
		{"hash inside a word", "a b#c;", []Directive{{Name: "a", Args: []string{"b#c"}, Line: 1}}},
		{"escaped blank", `a b\ c;`, []Directive{{Name: "a", Args: []string{`b\ c`}, Line: 1}}},
		{"directive over several lines", "a\n b\n c;\nd e;", []Directive{
			{Name: "a", Args: []string{"b", "c"}, Line: 1}, {Name: "d", Args: []string{"e"}, Line: 4},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if tt.want == nil {
				if err == nil {
					t.Errorf("no error, got %v", got)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a b":                     "line 1: unexpected end of the text",
		"a {\n b;\n":              "line 3: unexpected end of the text",
		"a;\n}":                   `line 2: unexpected "}"`,
		"a { b }":                 `line 1: unexpected "}"`,
		";":                       `line 1: unexpected ";"`,
		"a { { } }":               `line 1: unexpected "{"`,
		"a \"b":                   "line 1: a quote is not closed",
		"a \"b\"c;":               "line 1: unexpected 'c' after a quote",
		strings.Repeat("a{", 100): "line 1: blocks nested deeper than 16",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a b;", "a { b 'c'; }", `a "\"\\";`, "${", "a${b}{}", "\\", "'", "#", "a b#c\n;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse(text)
		if err != nil {
			return
		}
		checkLines(t, all, 1, 1+strings.Count(text, "\n"))
	})
}

// checkLines checks that lines rise and that every directive has a name or
// quotes to explain its lack.
func checkLines(t *testing.T, all []Directive, from, to int) {
	for _, d := range all {
		if d.Line < from || d.Line > to {
			t.Errorf("line %d of %q, want %d to %d", d.Line, d.Name, from, to)
		}
		from = d.Line
		checkLines(t, d.Block, from, to)
	}
}
