//go:build unix

package external

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/manent/action/providers"
)

// TestEachPartIsJudgedByItself: garbage in one hides no other, and what is
// known of it stays.
func TestEachPartIsJudgedByItself(t *testing.T) {
	const weights, shares = `"weights":{"a":66,"b":33}`, `"shares":{"a":66.6,"b":33.3}`
	cases := map[string]struct{ part, err, unfit string }{
		"rounded":             {`{"id":"p",` + weights + `,` + shares + `}`, "", ""},
		"its own word":        {`{"id":"p","error":{"kind":"denied","message":"no\n` + secret + `"}}`, "no [redacted]", ""},
		"error of no kind":    {`{"id":"p","error":{"kind":"bad","message":"no"}}`, "error.kind", ""},
		"error with a secret": {`{"id":"p","error":{"kind":"conflict","message":"no","drift":{"part":"` + secret + `","seen":{}}}}`, "holds a secret", ""},
		"no weights":          {`{"id":"p",` + shares + `}`, "has no weights", ""},
		"weights are none":    {`{"id":"p","weights":{},` + shares + `}`, "has no weights", ""},
		"negative weight":     {`{"id":"p","weights":{"a":-1,"b":1},` + shares + `}`, "expected 0 or more", ""},
		"weight NaN":          {`{"id":"p","weights":{"a":NaN,"b":1},` + shares + `}`, "expected a number", ""},
		"weight infinite":     {`{"id":"p","weights":{"a":-Infinity,"b":1},` + shares + `}`, "expected a number", ""},
		"weight too large":    {`{"id":"p","weights":{"a":1e999},` + shares + `}`, "finite", ""},
		"weight a text":       {`{"id":"p","weights":{"a":"1"},` + shares + `}`, "expected a number", ""},
		"unit a secret":       {`{"id":"p","weights":{"` + secret + `":1},` + shares + `}`, "holds a secret", ""},
		"share NaN":           {`{"id":"p",` + weights + `,"shares":{"a":NaN,"b":1}}`, "", "expected a number"},
		"a share missing":     {`{"id":"p",` + weights + `,"shares":{"a":100}}`, "", "share of slot b"},
		"no shares":           {`{"id":"p",` + weights + `}`, "", "share of slot a"},
		"share above 100":     {`{"id":"p",` + weights + `,"shares":{"a":101,"b":0}}`, "", "share of slot a is 101"},
		"shares too small":    {`{"id":"p",` + weights + `,"shares":{"a":66,"b":33}}`, "", "100 together"},
		"shares too large":    {`{"id":"p",` + weights + `,"shares":{"a":66.7,"b":33.6}}`, "", "100 together"},
		"third slot":          {`{"id":"p",` + weights + `,"shares":{"a":100,"b":0,"c":0}}`, "", "those of a and b"},
		"foreign below 0":     {`{"id":"p",` + weights + `,` + shares + `,"foreign":{"x":-1}}`, "", "foreign entry"},
		"units of nothing":    {`{"id":"p",` + weights + `,` + shares + `,"units":{"x":1}}`, "", "expected servers up"},
		"half a server":       {`{"id":"p",` + weights + `,` + shares + `,"units":{"a":0.5}}`, "", "expected an integer"},
		"unknown key":         {`{"id":"p",` + weights + `,` + shares + `,"Pending":true}`, "", "unknown key"},
		"a secret":            {`{"id":"p",` + weights + `,` + shares + `,"by":"` + secret + `"}`, "", "holds a secret"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := readParts(t, tc.part, `{"id":"other",`+weights+`,`+shares+`}`)
			if len(got) != 2 || got[1].Err != nil || got[1].Unfit != nil || got[1].Weights["a"] != 66 || got[1].Shares["a"] != 66.6 {
				t.Fatalf("the other part is not there: %+v", got)
			}
			one := got[0]
			says(t, one.Err, tc.err)
			says(t, one.Unfit, tc.unfit)
			if known := tc.err == ""; one.ID != "p" || (one.Weights["a"] == 66) != known || known && tc.unfit != "" && one.By != "" {
				t.Errorf("part %+v", one)
			}
		})
	}
}

// TestSharesAreRounded: what is off by rounding alone is exactly none or all of
// the traffic; what a slot may really get is not.
func TestSharesAreRounded(t *testing.T) {
	const sevenths = "100.00000000000001" // 7 times 100/7
	cases := map[string]struct {
		weights, a, b, more string
		wantA, wantB        float64
		unfit               string
	}{
		"a sum of floats":           {`{"a":100,"b":0}`, sevenths, `0`, ``, 100, 0, ""},
		"the rest of one":           {`{"a":100,"b":0}`, sevenths, `-1.4e-14`, ``, 100, 0, ""},
		"seven rounded":             {`{"a":100,"b":0}`, `100.03`, `0`, ``, 100, 0, ""},
		"three rounded":             {`{"a":100,"b":0}`, `99.9`, `0`, ``, 100, 0, ""},
		"three, and the rest":       {`{"a":100,"b":0}`, `99.9`, `0.1`, ``, 100, 0, ""},
		"the other slot":            {`{"a":0,"b":100}`, `0.1`, `99.9`, ``, 0, 100, ""},
		"units of its own":          {`{"x":3}`, `99.9`, `0`, ``, 100, 0, ""},
		"units of its own, little":  {`{"x":999,"y":1}`, `99.9`, `0.1`, ``, 99.9, 0.1, ""},
		"a little weight":           {`{"a":99.9,"b":0.1}`, `99.9`, `0.1`, ``, 99.9, 0.1, ""},
		"not in force":              {`{"a":100,"b":0}`, `99.9`, `0.1`, `,"pending":true`, 99.9, 0.1, ""},
		"somebody else's":           {`{"a":100,"b":0}`, `99.9`, `0`, `,"foreign":{"c":1}`, 99.9, 0, ""},
		"an idle entry":             {`{"a":100,"b":0}`, `99.9`, `0`, `,"foreign":{"c":0}`, 100, 0, ""},
		"an idle entry has nothing": {`{"a":100,"b":0}`, `60`, `0`, `,"foreign":{"c":0}`, 0, 0, "100 together"},
		"no traffic":                {`{"a":100,"b":0}`, `0`, `0`, ``, 0, 0, ""},
		"in between":                {`{"a":95,"b":5}`, `94.97`, `5.01`, ``, 94.97, 5.01, ""},
		"off":                       {`{"a":100,"b":0}`, `99.7`, `0`, ``, 0, 0, "100 together"},
		"far above":                 {`{"a":100,"b":0}`, `100.3`, `0`, ``, 0, 0, "share of slot a is 100.3"},
		"far below":                 {`{"a":100,"b":0}`, `100`, `-0.3`, ``, 0, 0, "share of slot b is -0.3"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := readParts(t, fmt.Sprintf(`{"id":"p","weights":%s,"shares":{"a":%s,"b":%s}%s}`, tc.weights, tc.a, tc.b, tc.more))[0]
			says(t, got.Unfit, tc.unfit)
			if got.Err != nil || got.Shares["a"] != tc.wantA || got.Shares["b"] != tc.wantB {
				t.Errorf("shares %v, error %v; expected a %v, b %v", got.Shares, got.Err, tc.wantA, tc.wantB)
			}
		})
	}
}

// TestEachAnswerIsJudgedByItself: garbage in one voids no other.
func TestEachAnswerIsJudgedByItself(t *testing.T) {
	const point = `{"at":"2026-11-30T12:10:00Z","value":`
	cases := map[string]struct{ answer, id, err, no string }{
		"a value":           {`{"id":"0","points":[` + point + `1}]}`, "0", "", ""},
		"its own word":      {`{"id":"0","error":{"kind":"denied","message":"no\n` + secret + `"}}`, "0", "", "no [redacted]"},
		"NaN":               {`{"id":"0","points":[` + point + `NaN}]}`, "0", "expected a number", ""},
		"one NaN of two":    {`{"id":"0","points":[` + point + `1},` + point + `-Infinity}]}`, "0", "expected a number", ""},
		"too large":         {`{"id":"0","points":[` + point + `1e999}]}`, "0", "finite", ""},
		"a text":            {`{"id":"0","points":[` + point + `"1"}]}`, "0", "expected a number", ""},
		"no time":           {`{"id":"0","points":[{"at":1,"value":1}]}`, "0", "expected a time", ""},
		"points are none":   {`{"id":"0","points":null}`, "0", "expected a list", ""},
		"unknown key":       {`{"id":"0","nodata":true}`, "0", "unknown key", ""},
		"a secret":          {`{"id":"0","noData":true,"warnings":["` + secret + `"]}`, "0", "holds a secret", ""},
		"its id is one":     {`{"id":"` + secret + `","noData":true}`, "", "holds a secret", ""},
		"id a number":       {`{"id":0,"noData":true}`, "", "expected a text", ""},
		"no id":             {`{"noData":true}`, "", "lacks id", ""},
		"no object":         {`null`, "", "expected an object", ""},
		"error of no kind":  {`{"id":"0","error":{"kind":"bad","message":"no"}}`, "0", "error.kind", ""},
		"error and no word": {`{"id":"0","error":{"kind":"denied","message":""}}`, "0", "no message", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, p := lister(typ[QueryResult](), "answers")
			parsed(t, p, tc.answer, `{"id":"1","points":[`+point+`2}]}`)
			one, other := c.answered(p, (*p.items)[0]), c.answered(p, (*p.items)[1])
			if other.Err != nil || other.ID != "1" || len(other.Points) != 1 || other.Points[0].Value != 2 {
				t.Errorf("the other answer is not there: %+v", other)
			}
			says(t, one.Err, tc.err)
			if one.ID != tc.id || tc.err != "" && (one.Points != nil || one.Warnings != nil) || (one.Error != nil) != (tc.no != "") || tc.no != "" && one.Error.Message != tc.no {
				t.Errorf("answer %+v", one)
			}
		})
	}
}

// says expects an error that says something, none for "", and no secret.
func says(t *testing.T, err error, text string) {
	t.Helper()
	if (err != nil) != (text != "") || err != nil && (!strings.Contains(err.Error(), text) || strings.Contains(err.Error(), secret)) {
		t.Errorf("error %v, expected it to say %q", err, text)
	}
}

// TestPartsWithoutANameOfTheirOwn hide no other either.
func TestPartsWithoutANameOfTheirOwn(t *testing.T) {
	const fine = `{"id":"other","weights":{"a":1},"shares":{"a":100,"b":0}}`
	for _, nameless := range []string{`7`, `{}`, `{"id":""}`, `{"id":7}`, `{"id":"` + secret + `","weights":{"a":1}}`, `{"id":"a\u0007"}`} {
		if got := readParts(t, nameless, fine); len(got) != 2 || got[0].ID != "#1" || got[0].Err == nil || got[1].Err != nil {
			t.Errorf("%s: %+v", nameless, got)
		}
	}
	if got := readParts(t, fine, fine); len(got) != 1 || got[0].Err == nil || got[0].Weights != nil {
		t.Errorf("the same name twice: %+v", got)
	}
}

// readParts is a reading of a program that answers with these parts.
func readParts(t *testing.T, parts ...string) []Seen {
	t.Helper()
	c, p := lister(typ[ReadResult](), "parts")
	parsed(t, p, parts...)
	return c.each(p, *p.items)
}

// lister is a client that knows a secret, with a parser of a result that has a
// list.
func lister(result reflect.Type, list string) (*Client, parser) {
	redactor := &providers.Redactor{}
	redactor.Add(providers.NewSecret(secret))
	c := New(Options{Provider: "external", Redactor: redactor})
	return c, parser{id: "x", result: result, redact: c.redact, list: list, items: &[]any{}}
}

func parsed(t *testing.T, p parser, items ...string) {
	t.Helper()
	answer := fmt.Sprintf(`{"protocol":1,"id":"x","result":{%q:[%s]}}`, p.list, strings.Join(items, ","))
	if _, no, err := p.parse([]byte(answer), 0); err != nil || no != nil {
		t.Fatalf("no %v, error %v", no, err)
	}
}
