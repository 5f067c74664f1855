package split

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/state"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func setup(mode string) Setup {
	return Setup{Prefix: "manent", Mode: mode, Key: "$cookie_uid", Addresses: map[state.Slot][]string{
		state.SlotA: {"10.0.0.1:80", "[2001:db8::1]:80"}, state.SlotB: {"10.0.0.2:80"},
	}}
}

func slots(candidate state.Slot, rollout string) state.Slots {
	s := state.Slots{Candidate: candidate}
	if candidate == "" {
		return s
	}
	return s.With(candidate, state.Release{Version: "1.1", Ref: state.Ref{state.RefRollout: rollout}})
}

// files are one of each kind, by the name of their golden file.
func files() map[string]File {
	testers := Testers{Header: "x-canary", Value: "always", Slot: state.SlotB}
	with := func(s Setup, t Testers, share Share) File {
		f := File{}.Next(s, slots(state.SlotB, "r-1"), share)
		f.Testers, f.Generation = t, "GENERATION"
		return f
	}
	sticky := setup(Weighted)
	sticky.Cookie, sticky.Expires = "route", "3600s"
	return map[string]File{
		"hashed-5.conf":    with(setup(Hashed), testers, Share{9500, 500}),
		"hashed-0.conf":    with(setup(Hashed), testers, Share{10000, 0}),
		"hashed-100.conf":  with(setup(Hashed), Testers{}, Share{0, 10000}),
		"hashed-none.conf": with(setup(Hashed), Testers{}, Share{}),
		"weight-5.conf":    with(setup(Weighted), testers, Share{9500, 500}),
		"weight-100.conf":  with(setup(Weighted), Testers{}, Share{0, 10000}),
		"weight-none.conf": with(setup(Weighted), testers, Share{}),
		"sticky-25.conf":   with(sticky, Testers{}, Share{7500, 2500}),
	}
}

func TestRender(t *testing.T) {
	for name, f := range files() {
		t.Run(name, func(t *testing.T) {
			text := f.Render("nginx")
			golden(t, name, text)
			again, byHand, err := Parse(text, "manent")
			if err != nil || byHand {
				t.Fatalf("by hand %v, %v", byHand, err)
			}
			if diff := cmp.Diff(f, again); diff != "" {
				t.Errorf("written and read again (-wrote +read):\n%s", diff)
			}
		})
	}
}

func TestOnce(t *testing.T) {
	status := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	got, err := setup(Hashed).Once("/etc/nginx/manent/shop.conf", status("http://127.0.0.1:8319/manent_status"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "once.conf", got)
	other := setup(Hashed)
	other.Prefix = "shop"
	got, err = other.Once("/etc/nginx/manent/shop.conf", status("https://lb1.internal/status"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "once-https.conf", got)
}

// Hand changes of a file at 5 %: what they make of the weights, or why not.
func TestParseByHand(t *testing.T) {
	tests := []struct {
		name, file, old, new string
		a, b                 float64
		foreign              map[string]float64
		refused              string
	}{
		{"share", "hashed-5.conf", "5.00%", "50%", 50, 50, nil, ""},
		{"share with one decimal", "hashed-5.conf", "5.00%", "0.5%", 99.5, 0.5, nil, ""},
		{"same share written otherwise", "hashed-5.conf", "5.00%", "5%", 95, 5, nil, ""},
		{"comment", "hashed-5.conf", "    5.00%", "    # testing\n    5.00%", 95, 5, nil, ""},
		{"line left out", "hashed-5.conf", "    5.00% b;\n", "", 100, 0, nil, ""},
		{"line put in", "hashed-0.conf", "    * a;", "    20% b;\n    * a;", 80, 20, nil, ""},
		{"turned", "hashed-5.conf", "    5.00% b;\n    * a;", "    5% a;\n    * b;", 5, 95, nil, ""},
		{"twice", "hashed-5.conf", "5.00% b;", "5% b; 7% b;", 88, 12, nil, ""},
		{"third entry", "hashed-5.conf", "    * a;", "    10% c;\n    * a;", 85, 5, map[string]float64{"c": 10}, ""},
		{"no rest", "hashed-5.conf", "    * a;", "    40% a;", 40, 5, map[string]float64{"nothing": 55}, ""},
		{"salt", "hashed-5.conf", `split_clients "`, `split_clients "other`, 95, 5, nil, ""},
		{"testers' value", "hashed-5.conf", `"always" b`, `"beta" b`, 95, 5, nil, ""},
		{"weight", "weight-5.conf", "10.0.0.2:80 weight=2", "10.0.0.2:80 weight=38", 50, 50, nil, ""},
		{"weight left out", "weight-5.conf", "10.0.0.2:80 weight=2", "10.0.0.2:80", 97.435897, 2.564103, nil, ""},
		{"server down", "weight-5.conf", "10.0.0.2:80 weight=2 max_fails=0", "10.0.0.2:80 weight=2 max_fails=0 down", 100, 0, nil, ""},
		{"server left out", "weight-5.conf", "    server 10.0.0.2:80 weight=2 max_fails=0;\n", "", 100, 0, nil, ""},
		{"another max_fails", "weight-5.conf", "10.0.0.2:80 weight=2 max_fails=0", "10.0.0.2:80 max_fails=3 fail_timeout=5s weight=2", 95, 5, nil, ""},
		{"foreign server", "weight-5.conf", "    keepalive", "    server 10.0.0.9:80 weight=10;\n    keepalive", 76, 4, map[string]float64{"10.0.0.9:80": 20}, ""},
		{"meta line gone", "hashed-5.conf", "# manent: ", "# was: ", 95, 5, nil, ""},
		{"meta line lies", "hashed-5.conf", `"weights":{"a":95,"b":5}`, `"weights":{"a":1,"b":99}`, 95, 5, nil, ""},

		{"percentage", "hashed-5.conf", "5.00%", "5.001%", 0, 0, nil, `"5.001%", expected a percentage`},
		{"zero", "hashed-5.conf", "5.00%", "0%", 0, 0, nil, "expected 0.01% to 100%"},
		{"more than all", "hashed-5.conf", "5.00%", "101%", 0, 0, nil, "expected 0.01% to 100%"},
		{"rest before the end", "hashed-5.conf", "5.00% b;", "* b;", 0, 0, nil, "as the last"},
		{"another directive", "hashed-5.conf", `map "" $manent_generation`, `map $host $other { default 1; }` + "\n" + `map "" $manent_generation`, 0, 0, nil, "not manent's"},
		{"another directive at the end", "hashed-5.conf", "default \"GENERATION\";\n}\n", "default \"GENERATION\";\n}\ngzip on;\n", 0, 0, nil, "line 27: not manent's"},
		{"directive gone", "hashed-5.conf", `map $status $manent_status {` + "\n    default $status;\n}\n", "", 0, 0, nil, "not manent's"},
		{"route turned off", "hashed-5.conf", "default $manent_bucket;", "default b;", 0, 0, nil, "line 12: not manent's"},
		{"never goes elsewhere", "hashed-5.conf", "never a;", "never b;", 0, 0, nil, "not manent's"},
		{"testers go elsewhere", "hashed-5.conf", `"always" b;`, `"always" c;`, 0, 0, nil, `testers go to "c"`},
		{"testers by a keyword", "hashed-5.conf", `"always" b;`, `hostnames b;`, 0, 0, nil, "meaning of its own"},
		{"backup", "weight-5.conf", "10.0.0.2:80 weight=2", "10.0.0.2:80 backup", 0, 0, nil, `has "backup"`},
		{"weight zero", "weight-5.conf", "10.0.0.2:80 weight=2", "10.0.0.2:80 weight=0", 0, 0, nil, "expected a weight"},
		{"another method", "weight-5.conf", "    keepalive", "    ip_hash;\n    keepalive", 0, 0, nil, "not manent's"},
		{"not closed", "hashed-5.conf", "* a;\n}", "* a;\n", 0, 0, nil, "line"},
		{"newer", "hashed-5.conf", `"format":1`, `"format":2`, 0, 0, nil, "a newer manent wrote it"},
		{"another prefix", "hashed-5.conf", "$manent_", "$shop_", 0, 0, nil, "not manent's"},
		{"nothing left", "hashed-5.conf", "", "", 0, 0, nil, "not manent's"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := files()[tt.file].Render("nginx")
			changed := strings.ReplaceAll(text, tt.old, tt.new)
			if tt.old == "" {
				changed = "# empty\n"
			} else if changed == text {
				t.Fatalf("%q is not in\n%s", tt.old, text)
			}
			f, byHand, err := Parse(changed, "manent")
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Fatalf("error %v, want %q; weights %v", err, tt.refused, f.Weights())
				}
				return
			}
			want := map[string]float64{"a": tt.a, "b": tt.b}
			if diff := cmp.Diff(want, f.Weights()); err != nil || diff != "" {
				t.Errorf("%v, weights (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(tt.foreign, f.Foreign()); diff != "" {
				t.Errorf("foreign (-want +got):\n%s", diff)
			}
			if byHand != (tt.name != "meta line lies") {
				t.Errorf("by hand %v", byHand)
			}
		})
	}
}

// Whatever comes after whatever, the weights are exactly those asked for, and
// what was read is what was written.
func TestNextIsExact(t *testing.T) {
	var old File
	for i := 0; i <= 10000; i += 41 {
		for _, mode := range []string{Hashed, Weighted} {
			old = old.Next(setup(mode), slots(state.SlotB, "r-1"), Share{10000 - i, i})
			want := map[string]float64{"a": float64(10000-i) / 100, "b": float64(i) / 100}
			again, _, err := Parse(old.Render(""), "manent")
			if err != nil || again.Weights()["a"] != want["a"] || again.Weights()["b"] != want["b"] {
				t.Fatalf("%s %d: weights %v, %v, want %v", mode, i, again.Weights(), err, want)
			}
			if share, err := ShareOf(again.Weights()); err != nil || share != (Share{10000 - i, i}) {
				t.Fatalf("%s %d: share %v, %v", mode, i, share, err)
			}
		}
	}
}

func TestNextOrderAndSalt(t *testing.T) {
	s := setup(Hashed)
	text := func(f File) string {
		out := ""
		for _, l := range f.Lines {
			out += fmt.Sprintf("%d%s ", l.Hundredths, l.Slot)
		}
		return strings.TrimSpace(out)
	}
	tests := []struct {
		name  string
		old   File
		slots state.Slots
		share Share
		want  string
	}{
		{"candidate b", File{}, slots("b", "r-1"), Share{9500, 500}, "500b -1a"},
		{"candidate b, more than half", File{}, slots("b", "r-1"), Share{2000, 8000}, "8000b -1a"},
		{"candidate a", File{}, slots("a", "r-1"), Share{500, 9500}, "500a -1b"},
		{"candidate at 100", File{}, slots("b", "r-1"), Share{0, 10000}, "-1b"},
		{"candidate at 0", File{}, slots("b", "r-1"), Share{10000, 0}, "-1a"},
		{"nobody's rollout keeps the order", File{Lines: []Line{{9000, "a"}, {-1, "b"}}}, state.Slots{}, Share{5000, 5000}, "5000a -1b"},
		{"nobody's rollout, nothing there", File{}, state.Slots{}, Share{1000, 9000}, "1000a -1b"},
		{"nobody", File{}, state.Slots{}, Share{}, ""},
	}
	for _, tt := range tests {
		if got := text(tt.old.Next(s, tt.slots, tt.share)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}

	one := File{}.Next(s, slots("b", "r-1"), Share{9900, 100})
	more := one.Next(s, slots("b", "r-1"), Share{7500, 2500})
	other := more.Next(s, slots("a", "r-2"), Share{2500, 7500})
	after := other.Next(s, state.Slots{}, Share{0, 10000})
	if one.Salt == "" || one.Salt != more.Salt || other.Salt == more.Salt || after.Salt != other.Salt {
		t.Errorf("salts %q, %q in one rollout, %q in the next, %q after it", one.Salt, more.Salt, other.Salt, after.Salt)
	}
	if first := (File{}).Next(s, state.Slots{}, Share{10000, 0}); first.Salt == "" {
		t.Error("the first file has no salt")
	}
	evil := File{}.Next(s, slots("b", `"; } evil on;`), Share{9900, 100})
	if strings.Contains(evil.Render(""), "evil") {
		t.Error("the rollout's name got into the file")
	}
}

func TestShareOf(t *testing.T) {
	for want, weights := range map[Share]map[string]float64{
		{9999, 1}:    {"a": 99.99, "b": 0.01},
		{10000, 0}:   {"a": 100},
		{6667, 3333}: {"a": 66.67, "b": 33.33},
	} {
		if got, err := ShareOf(weights); err != nil || got != want {
			t.Errorf("ShareOf(%v) = %v, %v, want %v", weights, got, err, want)
		}
	}
	for _, weights := range []map[string]float64{
		nil, {"a": 100, "b": 5}, {"a": 99.995, "b": 0.005}, {"a": 101, "b": -1}, {"a": 95, "b": 5, "c": 0}, {"a": 50, "b": 49},
	} {
		if got, err := ShareOf(weights); err == nil {
			t.Errorf("ShareOf(%v) = %v, want an error", weights, got)
		}
	}
}

func TestZero(t *testing.T) {
	if w := (File{}).Weights(); w != nil {
		t.Errorf("a file that is not there has weights %v", w)
	}
}

func TestSetupCheck(t *testing.T) {
	for _, mode := range []string{Hashed, Weighted} {
		if err := setup(mode).Check(); err != nil {
			t.Error(err)
		}
	}
	named := setup(Hashed)
	named.Addresses = map[state.Slot][]string{state.SlotA: {"app-a.internal:8080"}, state.SlotB: {"localhost:8081"}}
	if err := named.Check(); err != nil {
		t.Error(err)
	}
	server := func(address string) func(*Setup) {
		return func(s *Setup) { s.Addresses[state.SlotB] = []string{address} }
	}
	tests := map[string]struct {
		spoil func(*Setup)
		text  string
	}{
		"prefix":             {func(s *Setup) { s.Prefix = "9" }, "prefix"},
		"key with text":      {func(s *Setup) { s.Key = "u-$cookie_uid" }, "key"},
		"key with a quote":   {func(s *Setup) { s.Key = `$a" x` }, "key"},
		"cookie":             {func(s *Setup) { s.Mode, s.Cookie = Weighted, "a;b" }, "cookie"},
		"cookie by user":     {func(s *Setup) { s.Cookie = "route" }, "expected none in mode split_clients"},
		"no servers":         {func(s *Setup) { s.Addresses[state.SlotA] = nil }, "slot_a"},
		"in both slots":      {server("10.0.0.1:80"), "there twice"},
		"no port":            {server("10.0.0.9"), "host:port"},
		"port 0":             {server("10.0.0.9:0"), "10.0.0.9:0"},
		"port of a name":     {server("app:70000"), "1–65535"},
		"other text":         {server("10.0.0.9:80 backup"), "host:port"},
		"semicolon":          {server("app;:80"), "host:port"},
		"long form":          {server("[2001:0db8::1]:80"), "expected [2001:db8::1]:80"},
		"name, by turns":     {func(s *Setup) { s.Mode = Weighted; s.Addresses[state.SlotB] = []string{"app:80"} }, "tells the slots apart"},
		"zone of a link":     {server("[fe80::1%eth0]:80"), "expected"},
		"trailing dash":      {server("app-:80"), "host:port"},
		"unix socket":        {server("unix:/run/app.sock"), "host:port"},
		"variable as prefix": {func(s *Setup) { s.Prefix = "$a" }, "prefix"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := setup(Hashed)
			tt.spoil(&s)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %q", err, tt.text)
			}
		})
	}
}

// FuzzParse: what can be read can be written, and is then the same.
func FuzzParse(f *testing.F) {
	for _, file := range files() {
		f.Add(file.Render("nginx"))
	}
	f.Add(`split_clients "s:$manent_key" $manent_bucket { 5% b; 10% c; * a; }`)
	f.Add("# manent: {\"format\":9}\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, _, err := Parse(text, "manent")
		if err != nil {
			return
		}
		again, byHand, err := Parse(read.Render("nginx"), "manent")
		if err != nil || byHand {
			t.Fatalf("by hand %v, %v after writing\n%s", byHand, err, read.Render("nginx"))
		}
		if diff := cmp.Diff(read, again); diff != "" {
			t.Errorf("read and read again:\n%s", diff)
		}
		sum := 0.0
		for _, w := range read.held() {
			sum += w
		}
		if sum > 100.01 || (sum > 0 && sum < 99.99) {
			t.Errorf("held %v, want 100 or nothing", read.held())
		}
	})
}
