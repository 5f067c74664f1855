package haproxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/haproxy/haproxytest"
	"github.com/manent/action/providers/httpx"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

func read(t *testing.T, r *Router) router.Reading {
	t.Helper()
	seen, err := r.Read(t.Context(), candidateB())
	if err = errors.Join(err, seen.Err()); err != nil {
		t.Fatal(err)
	}
	return seen
}

func plan(t *testing.T, r *Router, share float64, seen router.Reading) []state.PartWeights {
	t.Helper()
	want, _, err := r.Plan(state.SlotB, share, 0.5, seen)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func move(t *testing.T, r *Router, share float64) []state.PartWeights {
	t.Helper()
	seen := read(t, r)
	want := plan(t, r, share, seen)
	if _, err := r.Write(t.Context(), candidateB(), want, seen); err != nil {
		t.Fatal(err)
	}
	return want
}

func at(t *testing.T, r *Router, want []state.PartWeights) {
	t.Helper()
	if diff := cmp.Diff(want, read(t, r).Weights()); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}

func wantKind(t *testing.T, err error, kind providers.Kind, text string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v of kind %v, want kind %v with %q", err, providers.KindOf(err), kind, text)
	}
}

func TestSettings(t *testing.T) {
	good := map[string]any{"dataplane_urls": "http://127.0.0.1:5555, https://lb2:5555/api", "backend": "shop", "credentials_secret": "dataplane"}
	tests := map[string]struct {
		change  map[string]any
		targets []providers.Target
		err     string
	}{
		"good":             {},
		"plain http":       {change: map[string]any{"dataplane_urls": "http://lb1:5555"}, err: "dataplane_urls: \"http://lb1:5555\" is plain http to another machine"},
		"allowed":          {change: map[string]any{"dataplane_urls": "http://lb1:5555", "allow_http": "true"}},
		"password in it":   {change: map[string]any{"dataplane_urls": "https://u:p4ss@lb1:5555"}, err: "carries credentials"},
		"version in it":    {change: map[string]any{"dataplane_urls": "https://lb1:5555/v3/"}, err: "expected the version in api_version only"},
		"query":            {change: map[string]any{"dataplane_urls": "https://lb1:5555?a=b"}, err: "without a query"},
		"twice":            {change: map[string]any{"dataplane_urls": "https://lb1:5555,https://lb1:5555/x"}, err: "lb1:5555 is there twice"},
		"none":             {change: map[string]any{"dataplane_urls": ""}, err: "dataplane_urls: it is empty"},
		"version":          {change: map[string]any{"api_version": "v1"}, err: "v1, expected one of v2, v3"},
		"backend":          {change: map[string]any{"backend": "two words"}, err: `backend "two words"`},
		"no credentials":   {change: map[string]any{"credentials_secret": ""}, err: "credentials_secret is empty"},
		"ca_file outside":  {change: map[string]any{"ca_file": "../ca.pem"}, err: "ca_file"},
		"pinned_for":       {change: map[string]any{"pinned_for": "-1s"}, err: "pinned_for: -1s"},
		"timeout":          {change: map[string]any{"timeout": "1m"}, err: "timeout: 1m0s, expected 1s to 15s"},
		"member":           {change: map[string]any{"member": "{ip}"}, targets: []providers.Target{target("a", "x"), target("b", "y")}, err: "{ip}"},
		"two of one name":  {change: map[string]any{"member": "{port}"}, targets: []providers.Target{target("a", "x"), target("b", "y")}, err: `both member "8080"`},
		"no target in b":   {targets: []providers.Target{target("a", "x")}, err: "slot: b"},
		"host and port":    {change: map[string]any{"member": "{host}:{port}"}, targets: []providers.Target{target("a", "x"), target("b", "y")}},
		"unknown setting":  {change: map[string]any{"dataplane_url": "x"}, err: "unknown setting"},
		"backend required": {change: map[string]any{"backend": nil}, err: "backend"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			settings := maps.Clone(good)
			maps.Copy(settings, tt.change)
			_, err := Spec().Build(providers.Env{Targets: tt.targets}, settings)
			if tt.err == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantKind(t, err, providers.Invalid, tt.err)
			if err != nil && strings.Contains(err.Error(), "p4ss") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

// What keeps a backend from being used is found before any traffic moves,
// named with its remedy, and does not keep a return from being made.
func TestUnfit(t *testing.T) {
	replace := func(old, now string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, now, 1) }
	}
	balance := func(lines string) func(string) string { return replace("  balance roundrobin\n", lines) }
	tests := map[string]struct {
		edit      func(string) string
		pinned    string
		kind      providers.Kind
		text      string // "" when it is fit
		hint, log string
	}{
		"missing":       {edit: replace("server web2 10.0.0.2:8080", "server web9 10.0.0.2:8080"), kind: providers.NotFound, text: "backend shop has no server web2", hint: "correct targets and member, which is {host}"},
		"template":      {edit: replace("server web2 10.0.0.2:8080 check maxconn 50 weight 0", "server-template web2 2 10.0.0.2:8080"), kind: providers.NotFound, text: "backend shop has no server web2", hint: "add it"},
		"backup":        {edit: replace("weight 0", "weight 0 backup"), kind: providers.Invalid, text: "server web2 is a backup", hint: "take the word backup"},
		"static-rr":     {edit: balance("  balance static-rr\n"), kind: providers.Invalid, text: "balance static-rr ignores weights", hint: "balance roundrobin"},
		"first":         {edit: balance("  balance first\n"), kind: providers.Invalid, text: "balance first ignores weights", hint: "balance roundrobin"},
		"source":        {edit: balance("  balance source\n"), kind: providers.Invalid, text: "hash-type is map-based", hint: "hash-type consistent"},
		"uri map-based": {edit: balance("  balance uri\n  hash-type map-based\n"), kind: providers.Invalid, text: "balance uri ignores"},
		"consistent":    {edit: balance("  balance uri\n  hash-type consistent\n")},
		"random":        {edit: balance("  balance random\n")},
		"consistent by defaults": {edit: func(s string) string {
			return replace("  mode http\n", "  mode http\n  hash-type consistent\n")(balance("  balance uri\n")(s))
		}, kind: providers.Invalid, text: "hash-type is map-based where the backend has none", hint: "write hash-type consistent into the backend itself"},
		"leastconn": {edit: balance("  balance leastconn\n"), log: "balance leastconn"},
		"inherited": {edit: func(s string) string {
			return replace("  mode http\n", "  mode http\n  balance source\n")(balance("")(s))
		}, kind: providers.Invalid, text: "balance source"},
		"cookie":          {edit: balance("  cookie SRV insert\n"), kind: providers.Invalid, text: "by cookie SRV, nobody says how long", hint: "maxlife"},
		"cookie allowed":  {edit: balance("  cookie SRV insert\n"), pinned: "24h", log: "cookie SRV"},
		"cookie too long": {edit: balance("  cookie SRV insert maxlife 7200\n"), pinned: "1h", kind: providers.Invalid, text: "by cookie SRV for 2h0m0s, pinned_for is 1h0m0s", hint: "pinned_for: 2h"},
		"cookie within":   {edit: balance("  cookie SRV insert maxlife 3600\n"), pinned: "1h", log: "cookie SRV"},
		"stick table":     {edit: balance("  stick-table type ip expire 1800000\n  stick on src\n"), kind: providers.Invalid, text: "by stick rules for 30m0s, pinned_for is 0s", hint: "pinned_for: 30m0s"},
		"no expire":       {edit: balance("  stick on src\n"), kind: providers.Invalid, text: "by stick rules, nobody says how long"},
		"table only":      {edit: balance("  stick-table type ip expire 1800000\n")},
		"stores only":     {edit: balance("  stick-table type ip\n  stick store-request src\n")},
		"agent-check":     {edit: replace("weight 0", "weight 0 agent-check agent-port 99"), log: "server web2 has agent-check"},
		"slowstart":       {edit: replace("weight 0", "weight 0 slowstart 5000"), log: "server web2 has slowstart"},
		"agent inherited": {edit: balance("  default-server agent-check agent-port 99\n"), log: "server web2 has agent-check"},
		"slow inherited":  {edit: balance("  default-server slowstart 5000\n"), log: "server web2 has slowstart"},
	}
	for name, tt := range tests {
		for _, version := range []string{"v2", "v3"} {
			t.Run(name+" "+version, func(t *testing.T) {
				w := pair(t, version, 1)
				if tt.pinned != "" {
					w.settings["pinned_for"] = tt.pinned
				}
				w.apis[0].Edit(tt.edit)
				w.apis[0].Reload()
				r := w.router(t)
				seen := read(t, r)
				_, _, err := r.Plan(state.SlotB, 25, 0.5, seen)
				if tt.text == "" {
					if err != nil {
						t.Errorf("refused: %v", err)
					}
				} else {
					wantKind(t, err, tt.kind, tt.text)
					if !strings.HasPrefix(err.Error(), "haproxy: plan on "+w.names[0]+": ") {
						t.Errorf("error %v does not say where", err)
					}
					if !strings.Contains(providers.HintOf(err), tt.hint) {
						t.Errorf("hint %q, want %q in it", providers.HintOf(err), tt.hint)
					}
				}
				if log := strings.Join(w.logged, "\n"); !strings.Contains(log, tt.log) || tt.log == "" && log != "" {
					t.Errorf("logged %q, want %q", log, tt.log)
				}
				if len(w.apis) > 0 && w.apis[0].Writes() != 0 {
					t.Error("something was written")
				}
				back := plan(t, r, 0, seen)
				w.apis[0].SetWeight("shop", "web1", 7)
				now := read(t, r)
				if _, err := r.Write(t.Context(), candidateB(), back, now); err != nil {
					t.Errorf("a return: %v", err)
				}
			})
		}
	}
}

// Servers that a template makes are in HAProxy and not in the configuration.
func TestTemplate(t *testing.T) {
	text := configuration("web1 weight 100") + "  server-template web 3 10.0.0.2:8080\n"
	w := newWorld(t, "v3", 1, text, target("a", "web1"), target("b", "web2"))
	w.apis[0].Edit(func(s string) string { return strings.Replace(s, "server web1 10.0.0.1", "server one 10.0.0.1", 1) })
	w.apis[0].Reload()
	r := w.router(t)
	seen := read(t, r)
	_, _, err := r.Plan(state.SlotB, 25, 0.5, seen)
	wantKind(t, err, providers.NotFound, "server web1 of backend shop comes from a server-template")
	if got := slices.Sorted(maps.Keys(seen.Parts[0].Foreign)); !slices.Equal(got, []string{"one", "web3"}) {
		t.Errorf("foreign %v, want one and web3", seen.Parts[0].Foreign)
	}
}

func TestNotThere(t *testing.T) {
	tests := map[string]struct {
		change     func(*world)
		kind       providers.Kind
		text, hint string
	}{
		"backend":     {func(w *world) { w.settings["backend"] = "shopp" }, providers.NotFound, "of backend shopp", "name of a backend section"},
		"api version": {func(w *world) { w.settings["api_version"] = "v2" }, providers.NotFound, "status 404", "api_version"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := pair(t, "v3", 1)
			tt.change(w)
			seen, err := w.router(t).Read(t.Context(), candidateB())
			if err != nil {
				t.Fatal(err)
			}
			wantKind(t, seen.Err(), tt.kind, tt.text)
			if hint := providers.HintOf(seen.Err()); !strings.Contains(hint, tt.hint) {
				t.Errorf("hint %q, want %q in it", hint, tt.hint)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	for secret, want := range map[string]struct {
		kind providers.Kind
		text string
	}{
		"wr0ng-secret":       {providers.Invalid, "not of the form user:password"},
		"admin:":             {providers.Invalid, "not of the form user:password"},
		"admin:wr0ng-secret": {providers.Denied, "status 401"},
	} {
		w := pair(t, "v3", 1)
		r := w.router(t)
		r.env.Secret = func(context.Context, string) (providers.Secret, error) { return providers.NewSecret(secret), nil }
		seen, err := r.Read(t.Context(), candidateB())
		err = errors.Join(err, seen.Err())
		wantKind(t, err, want.kind, want.text)
		if strings.Contains(err.Error()+providers.HintOf(err), "wr0ng") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

// A file edited by hand is drift, whether or not its version is still there.
func TestEditedByHand(t *testing.T) {
	w := pair(t, "v3", 2)
	r := w.router(t)
	move(t, r, 50)
	before := read(t, r)
	w.apis[1].Edit(func(s string) string {
		_, rest, _ := strings.Cut(s, "\n")
		return strings.Replace(rest, "check weight 100 ", "check weight 200 ", 1)
	})
	seen := read(t, r)
	if got := seen.Parts[1].Weights["web2"]; got != 200 || !seen.Parts[1].Pending {
		t.Errorf("weight %v, pending %v, want the one in the file, not in force", got, seen.Parts[1].Pending)
	}
	writes := w.apis[0].Writes()
	_, err := r.Write(t.Context(), candidateB(), plan(t, r, 25, before), before)
	wantKind(t, err, providers.Conflict, "part "+w.names[1]+" has weights ")
	if drifted, ok := errors.AsType[*router.ErrDrifted](err); !ok || drifted.Seen["web2"] != 200 || drifted.Want["web2"] != 100 {
		t.Errorf("%v does not say what was found and expected", err)
	}
	if w.apis[0].Writes() != writes {
		t.Error("the first instance was written although the second had drifted")
	}
	want := plan(t, r, 25, seen)
	if _, err := r.Write(t.Context(), candidateB(), want, seen); err != nil {
		t.Fatal(err)
	}
	at(t, r, want)
}

// Weights set at run time are no drift of the configuration, but they count
// for the shares, and nothing is in force.
func TestSetAtRunTime(t *testing.T) {
	for _, version := range []string{"v2", "v3"} {
		w := pair(t, version, 1)
		r := w.router(t)
		want := move(t, r, 50)
		w.apis[0].Command("set weight shop/web2 25")
		seen := read(t, r)
		if p := seen.Parts[0]; p.Shares[state.SlotB] != 20 || !p.Pending || !router.Same(p.Weights, want[0].Weights) {
			t.Errorf("%s: %+v, want 20 %%, pending, and the configured weights", version, p)
		}
		if ok, err := r.Settled(t.Context(), want, nil); ok || err != nil {
			t.Errorf("%s: settled %v, %v", version, ok, err)
		}
		if log := strings.Join(w.logged, "\n"); !strings.Contains(log, "server web2 has weight 100, HAProxy") {
			t.Errorf("%s: logged %q", version, log)
		}
	}
}

// Servers that somebody put out of service, or whose check fails, do not count.
func TestOutOfService(t *testing.T) {
	for _, command := range []string{"state maint", "state drain", "health down"} {
		t.Run(command, func(t *testing.T) {
			w := newWorld(t, "v3", 1, configuration("web1 weight 100", "web2 weight 100", "web3 weight 0"), target("a", "web1"), target("a", "web2"), target("b", "web3"))
			r := w.router(t)
			w.apis[0].Command("set server shop/web2 " + command)
			p := read(t, r).Parts[0]
			if p.Units[state.SlotA] != 1 || p.Units[state.SlotB] != 1 || p.Shares[state.SlotA] != 100 {
				t.Errorf("%+v, want one server up in each slot and all on a", p)
			}
			move(t, r, 50)
			if got := read(t, r).Parts[0].Shares[state.SlotB]; got != 50 {
				t.Errorf("share %v of the servers up, want 50", got)
			}
			w.apis[0].Command("set server shop/web3 " + command)
			seen := read(t, r)
			if _, _, err := r.Plan(state.SlotB, 75, 0.5, seen); err != nil || seen.Parts[0].Units[state.SlotB] != 0 {
				t.Errorf("%v, %v up: a candidate that is not up yet is planned for, and waited for", err, seen.Parts[0].Units)
			}
			back := plan(t, r, 0, seen)
			if _, err := r.Write(t.Context(), candidateB(), back, seen); err != nil {
				t.Errorf("a return with the candidate down: %v", err)
			}
		})
	}
}

// Other servers of the backend are reported with their share of the traffic
// and never touched.
func TestForeign(t *testing.T) {
	text := configuration("web1 weight 60", "web2 weight 20", "other weight 20", "idle weight 0", "spare weight 9 backup", "off weight 9 disabled")
	w := newWorld(t, "v3", 1, text, target("a", "web1"), target("b", "web2"))
	r := w.router(t)
	seen := read(t, r)
	p := seen.Parts[0]
	if diff := cmp.Diff(map[string]float64{"other": 20}, p.Foreign); diff != "" {
		t.Errorf("foreign (-want +got):\n%s", diff)
	}
	if p.Shares[state.SlotA] != 60 || p.Shares[state.SlotB] != 20 {
		t.Errorf("shares %v, want 60 and 20 of all traffic", p.Shares)
	}
	others := regexpOthers(w.apis[0].Text())
	back := plan(t, r, 0, seen)
	if _, err := r.Write(t.Context(), candidateB(), back, seen); err != nil {
		t.Fatal(err)
	}
	if got := regexpOthers(w.apis[0].Text()); got != others || !strings.Contains(others, "spare") {
		t.Errorf("the others became\n%s\nwant\n%s", got, others)
	}
}

// regexpOthers are the lines of servers that are not web1 and web2.
func regexpOthers(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "server ") && !strings.Contains(line, "server web") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// Weights that a configuration leaves out are HAProxy's defaults.
func TestDefaultWeights(t *testing.T) {
	for defaults, want := range map[string]float64{"": 1, "  default-server weight 30\n": 30} {
		w := pair(t, "v2", 1)
		w.apis[0].Edit(func(s string) string {
			return strings.NewReplacer("  balance roundrobin\n", "  balance roundrobin\n"+defaults, " weight 100", "").Replace(s)
		})
		w.apis[0].Reload()
		r := w.router(t)
		seen := read(t, r)
		if got := seen.Parts[0].Weights["web1"]; got != want || seen.Parts[0].Pending {
			t.Errorf("%q: weight %v, pending %v, want %v", defaults, got, seen.Parts[0].Pending, want)
		}
		at(t, r, move(t, r, 25))
	}
}

// A weight of a defaults section is nobody's hand: it is refused with what is to
// be written, and a return makes it explicit.
func TestWeightByDefaults(t *testing.T) {
	for _, version := range []string{"v2", "v3"} {
		text := strings.Replace(configuration("web1", "web2 weight 0"), "  mode http\n", "  mode http\n  default-server weight 100\n", 1)
		w := newWorld(t, version, 1, text, target("a", "web1"), target("b", "web2"))
		r := w.router(t)
		seen := read(t, r)
		_, _, err := r.Plan(state.SlotB, 10, 0.5, seen)
		wantKind(t, err, providers.Invalid, "the line of web1 has no weight and HAProxy runs it with 100")
		hand := &router.Hand{}
		if p := seen.Parts[0]; errors.As(err, &hand) || p.By != "" || !p.Pending || !strings.Contains(providers.HintOf(err), "write weight on the server's line") {
			t.Errorf("%s: %v, hint %q, by %q, pending %v", version, err, providers.HintOf(err), p.By, p.Pending)
		}
		if ok, err := r.Settled(t.Context(), seen.Weights(), nil); ok || err != nil {
			t.Errorf("%s: settled %v, %v", version, ok, err)
		}
		if log := strings.Join(w.logged, "\n"); !strings.Contains(log, "the line of web1 has no weight and HAProxy runs it with 100") {
			t.Errorf("%s: logged %q", version, log)
		}
		back := plan(t, r, 0, seen)
		if _, err := r.Write(t.Context(), candidateB(), back, seen); err != nil {
			t.Fatalf("%s: a return: %v", version, err)
		}
		at(t, r, back)
		at(t, r, move(t, r, 25))
	}
}

func TestReach(t *testing.T) {
	var targets []providers.Target
	for _, host := range []string{"b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9", "b10"} {
		targets = append(targets, target("b", host))
	}
	w := newWorld(t, "v3", 1, configuration("a1"), append(targets, target("a", "a1"))...)
	r := w.router(t)
	_, err := r.Reach(state.SlotB, 1, 0.5)
	wantKind(t, err, providers.Invalid, "come no nearer than")
	if hint := providers.HintOf(err); !strings.Contains(hint, "the smallest share here is 3.759 %") {
		t.Errorf("hint %q", hint)
	}
	if _, err := r.Reach(state.SlotA, 1, 0.5); err != nil {
		t.Errorf("1 %% for the small slot: %v", err)
	}
}

// slow makes a router whose calls end early.
func slow(t *testing.T, w *world) *Router {
	r := w.router(t)
	if err := r.connect(httpx.Options{Timeout: 200 * time.Millisecond, Deadline: 200 * time.Millisecond, Retries: -1}); err != nil {
		t.Fatal(err)
	}
	return r
}

// An instance that does not answer takes neither the reading nor the return of
// the others with it.
func TestOneHangs(t *testing.T) {
	w := pair(t, "v3", 2)
	move(t, w.router(t), 50)
	r := slow(t, w)
	heal := w.apis[0].Doom(func(haproxytest.Call) haproxytest.Fate { return haproxytest.Hang })
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, seen.Parts[0].Err, providers.Unknown, "no answer within 200ms")
	if seen.Parts[1].Err != nil || seen.Parts[1].Shares[state.SlotB] != 50 {
		t.Errorf("the other one: %+v", seen.Parts[1])
	}
	want := plan(t, r, 0, seen)
	_, err = r.Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Unknown, "compare on "+w.names[0])
	if got := w.memory[1].Weights("shop"); got["web2"] != 0 || got["web1"] == 0 {
		t.Errorf("weights %v of the instance that answers, want it returned", got)
	}
	heal()
	_, err = w.router(t).Write(t.Context(), candidateB(), want, seen)
	wantKind(t, err, providers.Unavailable, "could not be read before")
	r = w.router(t)
	if _, err = r.Write(t.Context(), candidateB(), want, read(t, r)); err != nil {
		t.Error(err)
	}
	at(t, r, want)
}
