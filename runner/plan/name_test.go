package plan

import (
	"testing"

	"github.com/manent/action/runner/config"
)

// names are all forms of the design.
func names() map[string]Name {
	return map[string]Name{
		"config":                      {Kind: Config},
		"secrets":                     {Kind: Secrets},
		"traffic:prepare":             {Kind: Prepare},
		"traffic:prepare@eu":          {Kind: Prepare, Pass: "eu"},
		"deploy":                      {Kind: Deploy},
		"deploy@eu":                   {Kind: Deploy, Pass: "eu"},
		"deploy@eu#0":                 {Kind: Deploy, Pass: "eu", InBatch: true},
		"deploy#12":                   {Kind: Deploy, InBatch: true, Batch: 12},
		"traffic:testers":             {Kind: Testers},
		"traffic:testers@rest-us-1":   {Kind: Testers, Pass: "rest-us-1"},
		"gate@traffic@0":              {Kind: Gate},
		"gate@traffic@25":             {Kind: Gate, Share: 25},
		"gate@traffic@25#3":           {Kind: Gate, Share: 25, Number: 3},
		"gate@traffic@25@eu#3":        {Kind: Gate, Share: 25, Pass: "eu", Number: 3},
		"approval@0":                  {Kind: Approval},
		"approval@25":                 {Kind: Approval, Share: 25},
		"approval@25@eu":              {Kind: Approval, Share: 25, Pass: "eu"},
		"approval@eu":                 {Kind: Approval, Wave: "eu"},
		"traffic@25":                  {Kind: Traffic, Share: 25},
		"traffic@2.5":                 {Kind: Traffic, Share: 2.5},
		"traffic@25@eu":               {Kind: Traffic, Share: 25, Pass: "eu"},
		"traffic:promote":             {Kind: Promote},
		"traffic:promote@eu":          {Kind: Promote, Pass: "eu"},
		"traffic:revert":              {Kind: Revert},
		"traffic:revert@eu":           {Kind: Revert, Pass: "eu"},
		"manent.traffic-retire":       {Kind: Retire},
		"manent.traffic-retire@eu":    {Kind: Retire, Pass: "eu"},
		"drain@canary#0":              {Kind: Drain, Pass: "canary", InBatch: true},
		"drain@canary#0.1":            {Kind: Drain, Pass: "canary", InBatch: true, Retry: 1},
		"drain-wait@canary#2.10":      {Kind: DrainWait, Pass: "canary", InBatch: true, Batch: 2, Retry: 10},
		"restore@canary#1":            {Kind: Restore, Pass: "canary", InBatch: true, Batch: 1},
		"restore-wait@canary#1":       {Kind: RestoreWait, Pass: "canary", InBatch: true, Batch: 1},
		"smoke-test":                  {Kind: Command, Command: "smoke-test"},
		"smoke-test@eu":               {Kind: Command, Command: "smoke-test", Pass: "eu"},
		"smoke-test@eu#1":             {Kind: Command, Command: "smoke-test", Pass: "eu", InBatch: true, Batch: 1},
		"activation":                  {Kind: Command, Command: "activation"},
		"traffic@0.0001@rest-eu.west": {Kind: Traffic, Share: 0.0001, Pass: "rest-eu.west"},
	}
}

func TestParseNameAndBack(t *testing.T) {
	for text, want := range names() {
		got, err := ParseName(text)
		if err != nil || got != want {
			t.Errorf("ParseName(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		if back := want.String(); back != text {
			t.Errorf("%+v is written %q, want %q", want, back, text)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	for _, text := range []string{
		"", "@", "#1", "traffic", "traffic@", "traffic@0", "traffic@025", "traffic@25.0", "traffic@101", "traffic@25%", "traffic@25@", "traffic@25@eu@us",
		"traffic@25#1", "gate", "gate@25", "gate@traffic", "gate@traffic@x", "gate@traffic@25#0", "gate@traffic@25#03", "gate@traffic@25#x", "gate@traffic@25#1.1",
		"approval", "approval@", "approval@25@eu@x", "approval@2_5", "config@eu", "secrets@eu", "config#1", "traffic:unknown", "traffic:prepare#1",
		"drain", "drain@canary", "drain@canary#", "drain@canary#x", "drain@canary#0.0", "drain@canary#-1", "drain@canary#01", "restore-wait@canary",
		"deploy#1.1", "deploy@eu#", "deploy@25", "complete", "a b", "a@b@c", "smoke#1.2", "eu/25%", "smoke@eu/x", "x#1#2", "ünï",
	} {
		if got, err := ParseName(text); err == nil {
			t.Errorf("ParseName(%q) = %+v, expected an error", text, got)
		}
	}
}

// No step of a user can have a name of manent's own.
func TestOwnNamesAreReserved(t *testing.T) {
	for text, n := range names() {
		if err := config.CommandName(text); (err == nil) != (text == n.Command) {
			t.Errorf("CommandName(%q) = %v for %+v", text, err, n)
		}
	}
	for _, word := range []string{"traffic", "gate", "approval", "drain", "drain-wait", "restore", "restore-wait"} {
		if config.CommandName(word) == nil {
			t.Errorf("%q may be the name of a user's step", word)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for text := range names() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text)
		if err != nil {
			return
		}
		if n.String() != text {
			t.Errorf("%q became %+v, which is written %q", text, n, n)
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q became %+v and then %+v, %v", text, n, again, err)
		}
	})
}

func TestStageName(t *testing.T) {
	for _, tt := range []struct {
		pass  string
		share float64
		want  string
	}{{"", 25, "25%"}, {"eu", 2.5, "eu/2.5%"}, {"", 0, "0%"}} {
		if got := StageName(tt.pass, tt.share); got != tt.want {
			t.Errorf("StageName(%q, %v) = %s", tt.pass, tt.share, got)
		}
	}
}
