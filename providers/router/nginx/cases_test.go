package nginx

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/state"
)

func share(part string, b float64) state.PartWeights {
	return state.PartWeights{ID: part, Weights: map[string]float64{"a": 100 - b, "b": b}}
}

func shares(b float64) []state.PartWeights {
	return []state.PartWeights{share("lb1", b), share("lb2", b)}
}

func (w *world) edit(name string, change func(string) string) {
	w.nginx[name].machine.Edit(managed, func(b []byte) []byte { return []byte(change(string(b))) })
}

func (w *world) file(name string) string { return string(w.nginx[name].machine.File(managed)) }

func read(t *testing.T, r *Router) router.Reading {
	t.Helper()
	seen, err := r.Read(t.Context(), candidateB())
	if err = errors.Join(err, seen.Err()); err != nil {
		t.Fatal(err)
	}
	return seen
}

func wantKind(t *testing.T, err error, kind providers.Kind, text string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v of kind %v, want kind %v with %q", err, providers.KindOf(err), kind, text)
	}
}

func TestSettings(t *testing.T) {
	if _, err := Spec().Build(providers.Env{}, settings(split.Hashed, nil)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		more map[string]any
		text string
	}{
		"include_file relative":   {map[string]any{"include_file": "conf.d/x.conf"}, "include_file"},
		"include_file with blank": {map[string]any{"include_file": "/etc/a b"}, "include_file"},
		"include_file not clean":  {map[string]any{"include_file": "/etc/../x"}, "include_file"},
		"mode":                    {map[string]any{"mode": "ip_hash"}, "expected one of split_clients, weight"},
		"slot":                    {map[string]any{"slot_b": []any{}}, "slot_b"},
		"weight by name":          {map[string]any{"mode": "weight", "slot_b": "app-b:80"}, "app-b:80"},
		"key":                     {map[string]any{"key": "user"}, "variables only"},
		"header":                  {map[string]any{"header": "X Canary"}, "header"},
		"prefix":                  {map[string]any{"prefix": "a-b"}, "prefix"},
		"cookie by user":          {map[string]any{"cookie": "route"}, "cookie"},
		"cookie_expires":          {map[string]any{"cookie_expires": "1500ms"}, "whole seconds"},
		"status_url elsewhere":    {map[string]any{"status_url": "http://lb1.internal/status"}, "plain http"},
		"status_url with query":   {map[string]any{"status_url": "http://127.0.0.1/s?a=b"}, "plain path"},
		"name":                    {map[string]any{"name": ""}, "name"},
		"nginx_command as text":   {map[string]any{"nginx_command": "nginx -c /x"}, "expected a list"},
		"timeout":                 {map[string]any{"timeout": "0s"}, "timeout"},
		"hosts twice":             {map[string]any{"lb_hosts": "lb1, lb1"}, "twice"},
		"host":                    {map[string]any{"lb_hosts": "-oProxyCommand=x"}, "expected a host"},
		"no user":                 {map[string]any{"ssh_user": ""}, "ssh_user"},
		"no known_hosts":          {map[string]any{"known_hosts": ""}, "known_hosts"},
		"no key and password":     {map[string]any{"ssh_key_secret": ""}, "ssh_key_secret"},
		"port":                    {map[string]any{"ssh_port": 0}, "ssh_port"},
		"unknown":                 {map[string]any{"lb_host": "lb1"}, "unknown setting"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Build(providers.Env{}, settings(split.Hashed, tt.more))
			wantKind(t, err, providers.Invalid, tt.text)
			if err != nil && !strings.HasPrefix(err.Error(), "nginx: settings: ") {
				t.Errorf("error %q does not say where", err)
			}
		})
	}
}

// Nobody needs SSH for this machine's own NGINX.
func TestLocal(t *testing.T) {
	s := map[string]any{"include_file": managed, "slot_a": "10.0.0.1:80", "slot_b": "10.0.0.2:80", "name": "edge"}
	w := newWorld(initial(t, s), "local")
	r := w.router(t, s)
	seen := read(t, r)
	want := []state.PartWeights{share("edge", 5)}
	if _, err := r.Write(t.Context(), candidateB(), want, seen); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r).Weights(); !router.SameParts(got, want) {
		t.Errorf("weights %v, want %v", got, want)
	}
}

// A share changed by hand is drift with the weights that the directives have,
// and a write that does not know of it is a conflict.
func TestDriftByHand(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	if _, err := r.Write(t.Context(), candidateB(), shares(5), read(t, r)); err != nil {
		t.Fatal(err)
	}
	before := read(t, r)
	w.edit("lb2", func(s string) string { return strings.Replace(s, "5.00%", "50%", 1) })
	seen := read(t, r)
	if diff := cmp.Diff([]state.PartWeights{share("lb1", 5), share("lb2", 50)}, seen.Weights()); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	_, err := r.Write(t.Context(), candidateB(), shares(25), before)
	wantKind(t, err, providers.Conflict, "part lb2 has weights ")
	if drifted, ok := errors.AsType[*router.ErrDrifted](err); !ok || drifted.Seen["b"] != 50 || drifted.Want["b"] != 5 {
		t.Errorf("%v does not say what was found and expected", err)
	}
	if strings.Contains(w.file("lb1"), "25.00%") {
		t.Error("lb1 was written although lb2 had drifted")
	}
	if _, err := r.Write(t.Context(), candidateB(), shares(25), seen); err != nil {
		t.Errorf("a write that knows of the drift: %v", err)
	}
}

// A file that means nothing to manent has no weights, and no share is raised
// on it. A return, which has seen that, overwrites it; nobody else does.
func TestUnreadable(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	fresh := read(t, r)
	w.edit("lb1", func(s string) string { return s + "gzip on;\n" })
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	bad := seen.Parts[0]
	wantKind(t, bad.Unfit, providers.Invalid, "nginx: read on lb1: read "+managed+": line 24: not manent's")
	if providers.HintOf(bad.Unfit) == "" || bad.Weights != nil || bad.Shares != nil || !bad.Pending || bad.Err != nil || seen.Parts[1].Unfit != nil {
		t.Errorf("hint %q, parts %+v", providers.HintOf(bad.Unfit), seen.Parts)
	}
	_, _, err = r.Plan(state.SlotB, 25, 0.5, seen)
	wantKind(t, err, providers.Invalid, "not manent's")
	back, _, err := r.Plan(state.SlotB, 0, 0.5, seen)
	if err != nil || !router.SameParts(back, shares(0)) {
		t.Errorf("a return is planned as %v, %v", back, err)
	}
	_, err = r.Write(t.Context(), candidateB(), shares(25)[:1], fresh)
	wantKind(t, err, providers.Invalid, "not manent's")
	if !strings.Contains(w.file("lb1"), "gzip") {
		t.Error("it was overwritten by a write that had not seen it")
	}

	w.edit("lb1", func(s string) string { return s + "gzip off;\n" })
	_, err = r.Write(t.Context(), candidateB(), shares(0), seen)
	wantKind(t, err, providers.Invalid, "not manent's")
	seen, err = r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range seen.Parts { // as the runner returns
		if _, err = r.Write(t.Context(), candidateB(), []state.PartWeights{share(p.ID, 0)}, router.Reading{Parts: []router.Part{p}}); err != nil {
			t.Errorf("a return: %v", err)
		}
	}
	if ok, err := r.Settled(t.Context(), back, nil); !ok || err != nil {
		t.Errorf("settled %v, %v", ok, err)
	}
	if got := read(t, r).Weights(); !router.SameParts(got, shares(0)) {
		t.Errorf("weights %v after the return", got)
	}
}

// What cannot be reached does not keep the rest from being returned.
func TestReturnReachesTheRest(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	if _, err := r.Write(t.Context(), candidateB(), shares(50), read(t, r)); err != nil {
		t.Fatal(err)
	}
	first := &w.nginx["lb1"].machine
	first.Fate = func(hosttest.Call) hosttest.Fate { return hosttest.Down }
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := r.Write(t.Context(), candidateB(), shares(0), seen)
	wantKind(t, err, providers.Unavailable, "compare on lb1")
	if receipt["lb2"] == "" || receipt["lb1"] != "" {
		t.Errorf("receipt %v, want one for lb2 only", receipt)
	}
	if !strings.Contains(w.file("lb2"), "* a;") || strings.Contains(w.file("lb2"), "% b;") {
		t.Errorf("lb2 was not returned:\n%s", w.file("lb2"))
	}
	first.Fate = w.decide
	_, err = r.Write(t.Context(), candidateB(), shares(0), seen)
	wantKind(t, err, providers.Unavailable, "could not be read before")
	if _, err = r.Write(t.Context(), candidateB(), shares(0), read(t, r)); err != nil {
		t.Error(err)
	}
	if got := read(t, r).Weights(); !router.SameParts(got, shares(0)) {
		t.Errorf("weights %v after the second call", got)
	}
}

// A refused file stays where it is and does not stop the next instance; the
// error holds what NGINX said.
func TestRefusedByNginx(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	w.nginx["lb1"].broken = `nginx: [emerg] unknown directive "oops" in /etc/nginx/nginx.conf:7`
	_, err := r.Write(t.Context(), candidateB(), shares(5), read(t, r))
	wantKind(t, err, providers.Invalid, `write on lb1: write /etc/nginx/manent/shop.conf: the check refused it, the old content is back: nginx: [emerg] unknown directive "oops"`)
	if got := read(t, r).Weights(); !router.SameParts(got, []state.PartWeights{share("lb1", 0), share("lb2", 5)}) {
		t.Errorf("weights %v", got)
	}
}

// A write that was killed before NGINX was told is done again, although the
// file already has the weights.
func TestUnfinishedIsFinished(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	if _, err := r.Write(t.Context(), candidateB(), shares(5), read(t, r)); err != nil {
		t.Fatal(err)
	}
	w.nginx["lb1"].machine.Unfinished(managed)
	seen := read(t, r)
	if !seen.Parts[0].Pending || seen.Parts[1].Pending {
		t.Errorf("pending %v, %v, want lb1 only", seen.Parts[0].Pending, seen.Parts[1].Pending)
	}
	if ok, err := r.Settled(t.Context(), shares(5), nil); ok || err != nil {
		t.Errorf("settled %v, %v with an unfinished write", ok, err)
	}
	tests := [2]int{w.nginx["lb1"].tests, w.nginx["lb2"].tests}
	if _, err := r.Write(t.Context(), candidateB(), shares(5), seen); err != nil {
		t.Fatal(err)
	}
	if got := [2]int{w.nginx["lb1"].tests, w.nginx["lb2"].tests}; got != [2]int{tests[0] + 1, tests[1]} {
		t.Errorf("NGINX was told %v times, then %v", tests, got)
	}
	if ok, err := r.Settled(t.Context(), shares(5), nil); !ok || err != nil {
		t.Errorf("settled %v, %v", ok, err)
	}
}

// No file, or one where no slot serves, is what a first release finds.
func TestFirstRelease(t *testing.T) {
	for _, mode := range []string{split.Hashed, split.Weighted} {
		s := settings(mode, nil)
		g, err := Generate(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"no file": "", "empty": g.Empty} {
			t.Run(mode+" "+name, func(t *testing.T) {
				w := newWorld(content, "lb1", "lb2")
				r := w.router(t, s)
				seen := read(t, r)
				if seen.Share(state.SlotA) != 0 || seen.Share(state.SlotB) != 0 || seen.Testers {
					t.Errorf("reading %+v, want no weights", seen)
				}
				if got := w.nginx["lb1"].request("user", nil); got != "none" && got != "" {
					t.Errorf("a request goes to %q", got)
				}
				if _, err := r.Write(t.Context(), candidateB(), shares(100), seen); err != nil {
					t.Fatal(err)
				}
				if got := read(t, r).Weights(); !router.SameParts(got, shares(100)) {
					t.Errorf("weights %v", got)
				}
				if got := w.nginx["lb1"].request("user", nil); got != state.SlotB {
					t.Errorf("a request goes to %q, want b", got)
				}
			})
		}
	}
}

// Users that came to the candidate stay there while its share grows, on every
// instance alike; the next rollout has other users.
func TestUsersStay(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	users := make([]string, 400)
	for i := range users {
		users[i] = "user-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26%80)
	}
	had := map[string]bool{}
	for _, b := range []float64{1, 5, 25, 50, 100} {
		if _, err := r.Write(t.Context(), candidateB(), shares(b), read(t, r)); err != nil {
			t.Fatal(err)
		}
		for _, user := range users {
			slot := w.nginx["lb1"].request(user, nil)
			if other := w.nginx["lb2"].request(user, nil); other != slot {
				t.Fatalf("at %v %%: %s is in %s and %s", b, user, slot, other)
			}
			if had[user] && slot != state.SlotB {
				t.Fatalf("at %v %%: %s went back", b, user)
			}
			had[user] = slot == state.SlotB
		}
	}
	inFirst := map[string]bool{}
	for i, rollout := range []string{"r-1", "r-2"} {
		slots := candidateB()
		slots.B.Ref[state.RefRollout] = rollout
		for _, b := range []float64{0, 25} {
			if _, err := r.Write(t.Context(), slots, shares(b), read(t, r)); err != nil {
				t.Fatal(err)
			}
		}
		both, second := 0, 0
		for _, user := range users {
			in := w.nginx["lb1"].request(user, nil) == state.SlotB
			if i == 0 {
				inFirst[user] = in
			} else if in {
				second++
				if inFirst[user] {
					both++
				}
			}
		}
		if i == 1 && both*2 > second {
			t.Errorf("%d of the %d users of the second rollout were in the first, want about a quarter", both, second)
		}
	}
}

func TestTarget(t *testing.T) {
	s := settings(split.Hashed, map[string]any{"header": "x-beta"})
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	access, err := r.Target(t.Context(), candidateB(), state.SlotB, router.Match{Value: "yes"}, true)
	if diff := cmp.Diff(map[string]string{"x-beta": "yes"}, access.Header); err != nil || diff != "" {
		t.Errorf("%v, header (-want +got):\n%s", err, diff)
	}
	for value, want := range map[string]state.Slot{"yes": state.SlotB, "never": state.SlotA, "other": state.SlotA} {
		if got := w.nginx["lb1"].request("user", map[string]string{"X-Beta": value}); got != want {
			t.Errorf("x-beta: %s goes to %s, want %s", value, got, want)
		}
	}
	if _, err := r.Write(t.Context(), candidateB(), shares(100), read(t, r)); err != nil {
		t.Fatal(err)
	}
	if got := w.nginx["lb2"].request("user", map[string]string{"X-Beta": "never"}); got != state.SlotA {
		t.Errorf("at 100 %% x-beta: never goes to %s, want a", got)
	}
	if _, err := r.Target(t.Context(), candidateB(), state.SlotB, router.Match{Header: "X-Canary", Value: "yes"}, false); err != nil {
		t.Fatal(err)
	}
	if got := w.nginx["lb2"].request("user", map[string]string{"X-Beta": "never"}); got != state.SlotB || read(t, r).Testers {
		t.Errorf("off: x-beta: never goes to %s, testers %v", got, read(t, r).Testers)
	}
	for _, match := range []router.Match{{Value: ""}, {Value: "never"}, {Value: "a b"}, {Header: "x_canary", Value: "yes"}, {Value: "default"}} {
		_, err := r.Target(t.Context(), candidateB(), state.SlotB, match, true)
		wantKind(t, err, providers.Invalid, "expected")
	}
}

// Testers before there is a file reach their slot, nobody else any.
func TestTargetFirst(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld("", "lb1", "lb2")
	r := w.router(t, s)
	match := router.Match{Header: "x-canary", Value: "always"}
	if _, err := r.Target(t.Context(), candidateB(), state.SlotB, match, false); err != nil {
		t.Errorf("off without a file: %v", err)
	}
	if _, err := r.Target(t.Context(), candidateB(), state.SlotB, match, true); err != nil {
		t.Fatal(err)
	}
	if got := w.nginx["lb1"].request("user", map[string]string{"X-Canary": "always"}); got != state.SlotB {
		t.Errorf("a tester goes to %q", got)
	}
	if got := w.nginx["lb1"].request("user", nil); got != "none" {
		t.Errorf("everybody goes to %q", got)
	}
}

// The testers' entry is proven before anybody relies on it.
func TestTargetWaits(t *testing.T) {
	s := settings(split.Hashed, map[string]any{"timeout": "2s"})
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	w.nginx["lb1"].held = true
	_, err := r.Target(t.Context(), candidateB(), state.SlotB, router.Match{Value: "always"}, true)
	wantKind(t, err, providers.Unknown, "the workers do not serve it yet: no answer within 2s")
	w.nginx["lb1"].release()
	if _, err = r.Target(t.Context(), candidateB(), state.SlotB, router.Match{Value: "always"}, true); err != nil {
		t.Error(err)
	}
}

func TestSettledNeedsTheStatus(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	w.nginx["lb2"].machine.Network = nil
	ok, err := r.Settled(t.Context(), shares(0), nil)
	wantKind(t, err, providers.Unknown, "prove on lb2")
	if ok || providers.HintOf(err) == "" {
		t.Errorf("settled %v without an answer, hint %q", ok, providers.HintOf(err))
	}
}

func TestSticky(t *testing.T) {
	s := settings(split.Weighted, map[string]any{"cookie": "route", "cookie_expires": "2h"})
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	if got := r.PinnedFor().String(); got != "2h0m0s" {
		t.Errorf("pinned for %s, want the life of the cookie", got)
	}
	seen, err := r.Read(t.Context(), candidateB())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = r.Plan(state.SlotB, 25, 0.5, seen)
	wantKind(t, err, providers.Invalid, "NGINX 1.22.1 has none, expected 1.29.6 or newer")
	if diff := cmp.Diff(shares(0), seen.Weights()); diff != "" {
		t.Errorf("weights for a return (-want +got):\n%s", diff)
	}
}

// Instances are asked at the same time, and a return, which writes them one by
// one, compares each once: a slow way to them leaves time in each call.
func TestSlowTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settings(split.Hashed, map[string]any{"lb_hosts": "lb1, lb2, lb3"})
		w := newWorld(initial(t, s), "lb1", "lb2", "lb3")
		r := w.router(t, s)
		open := r.open
		r.open = func(ctx context.Context, name string) (host.Host, error) {
			<-time.After(7 * time.Second)
			return open(ctx, name)
		}
		began := time.Now()
		seen := read(t, r)
		if took := time.Since(began); took != 7*time.Second || len(seen.Parts) != 3 {
			t.Errorf("reading %d parts took %v", len(seen.Parts), took)
		}
		began = time.Now()
		if _, err := r.Write(t.Context(), candidateB(), shares(0)[:1], seen); err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("writing one took %v, %v", time.Since(began), err)
		}
	})
}

func TestWriteRefuses(t *testing.T) {
	s := settings(split.Hashed, nil)
	w := newWorld(initial(t, s), "lb1", "lb2")
	r := w.router(t, s)
	seen := read(t, r)
	for text, want := range map[string][]state.PartWeights{
		"expected 100 together": {{ID: "lb1", Weights: map[string]float64{"a": 5, "b": 5}}},
		"multiple of 0.01":      {{ID: "lb1", Weights: map[string]float64{"a": 99.999, "b": 0.001}}},
		"no such instance":      {share("lb3", 5)},
	} {
		_, err := r.Write(t.Context(), candidateB(), want, seen)
		wantKind(t, err, providers.Invalid, text)
	}
	_, err := r.Write(t.Context(), candidateB(), shares(5), router.Reading{})
	wantKind(t, err, providers.Conflict, "part lb1 has weights ")
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
	_, _, err = r.Plan(state.SlotB, 0.004, 0.5, seen)
	wantKind(t, err, providers.Invalid, "nginx: plan")
}
