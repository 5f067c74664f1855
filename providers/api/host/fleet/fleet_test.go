package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
)

func target(name, slot, ssh string) providers.Target {
	return providers.Target{Host: name, Labels: map[string]string{"slot": slot, SSHLabel: ssh}}
}

func TestMachines(t *testing.T) {
	machines, err := Machines([]providers.Target{target("b1", "b", ""), target("a1", "a", "10.0.0.1:2222"), target("b2", "b", "")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range append(In("a", machines), In("b", machines)...) {
		got = append(got, m.Host+" "+m.Address)
	}
	if diff := cmp.Diff([]string{"a1 10.0.0.1:2222", "b1 b1", "b2 b2"}, got); diff != "" {
		t.Error(diff)
	}
}

func eight() []Machine {
	var out []Machine
	for i := range 8 {
		name := fmt.Sprintf("m%d", i)
		out = append(out, Machine{Target: providers.Target{Host: name}, Address: name})
	}
	return out
}

func fleet(atOnce int) Fleet {
	return Fleet{AtOnce: atOnce, Timeout: time.Minute, Open: func(context.Context, string) (host.Host, error) {
		return &hosttest.Machine{}, nil
	}}
}

func TestSoManyAtATime(t *testing.T) {
	var now, most atomic.Int32
	var mu sync.Mutex
	var order []string
	var meet sync.WaitGroup
	meet.Add(2)
	err := fleet(2).Each(t.Context(), eight(), func(_ context.Context, _ host.Host, m Machine) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		mu.Lock()
		order = append(order, m.Host)
		first := len(order) <= 2
		mu.Unlock()
		if first {
			meet.Done()
			meet.Wait() // two are at work
		}
		return nil
	})
	if err != nil || most.Load() != 2 || len(order) != 8 {
		t.Errorf("error %v, %d at a time, %v, expected 2 and all", err, most.Load(), order)
	}
}

func TestAFailureStops(t *testing.T) {
	secondDone := make(chan struct{})
	err := fleet(2).Each(t.Context(), eight(), func(_ context.Context, _ host.Host, m Machine) error {
		switch m.Host {
		case "m0", "m1", "m2":
			return nil
		case "m3":
			<-secondDone
			return &providers.Fault{Kind: providers.Denied, Err: errors.New("no"), Hint: "ask"}
		}
		close(secondDone)
		return &providers.Fault{Kind: providers.Unavailable, Err: errors.New("down")}
	})
	want := "on m3: no; on m4: down (done: m0, m1, m2; not begun: m5, m6, m7)"
	if err == nil || err.Error() != want || providers.KindOf(err) != providers.Denied || providers.HintOf(err) != "ask" {
		t.Errorf("error %v (%v), hint %q, expected %q", err, providers.KindOf(err), providers.HintOf(err), want)
	}
}

func TestATimeoutIsOfTheMachine(t *testing.T) {
	f := fleet(1)
	f.Timeout = time.Millisecond
	err := f.Each(t.Context(), eight()[:1], func(ctx context.Context, _ host.Host, _ Machine) error {
		<-ctx.Done()
		return &providers.Fault{Kind: providers.Unknown, Err: context.Cause(ctx)}
	})
	if err == nil || !strings.Contains(err.Error(), "on m0: it took longer than 1ms") || providers.Lost(err) {
		t.Errorf("error %v, expected the machine's timeout, not the caller's", err)
	}
}

func TestAccepts(t *testing.T) {
	l := hosttest.Listen(t)
	defer func() { _ = l.Close() }()
	var port int
	if _, err := fmt.Sscanf(l.Addr().String(), "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	if reason, err := Accepts(t.Context(), host.Local{}, "127.0.0.1", port); reason != "" || err != nil {
		t.Errorf("reason %q, error %v, expected neither", reason, err)
	}
	_ = l.Close()
	if reason, err := Accepts(t.Context(), host.Local{}, "127.0.0.1", port); !strings.HasPrefix(reason, "nothing accepts connections at 127.0.0.1:") || err != nil {
		t.Errorf("reason %q, error %v, expected a reason", reason, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Accepts(ctx, host.Local{}, "127.0.0.1", port); !providers.Lost(err) {
		t.Errorf("error %v, expected the caller's", err)
	}
}

func TestWhatIsSaidHasNoSecrets(t *testing.T) {
	var secrets providers.Redactor
	secrets.Add(providers.NewSecret("hunter2"))
	var lines []string
	Printer(func(line string) { lines = append(lines, line) }, &secrets)("m0", "one\r\ntwo hunter2\rthree\n")
	Printer(nil, nil)("m0", "nobody listens")
	if diff := cmp.Diff([]string{"m0: one", "m0: two [redacted] three"}, lines); diff != "" {
		t.Error(diff)
	}
	err := Named("x", "do", &providers.Fault{Op: "run", Kind: providers.Denied, Err: errors.New("no hunter2"), Hint: "hunter2?"}, &secrets)
	if err == nil || err.Error() != "x: do: run: no [redacted]" || providers.KindOf(err) != providers.Denied || providers.HintOf(err) != "[redacted]?" {
		t.Errorf("error %v (%v), hint %q", err, providers.KindOf(err), providers.HintOf(err))
	}
	if err := Named("x", "do", nil, nil); err != nil {
		t.Errorf("error %v of none", err)
	}
	lost := Named("x", "do", &providers.Fault{Err: context.Canceled}, &secrets)
	if !providers.Lost(lost) {
		t.Errorf("error %v, expected it to be the caller's still", lost)
	}
}

// TestLook: what is known of one machine hides nothing of the others.
func TestLook(t *testing.T) {
	down := &providers.Fault{Kind: providers.Unavailable, Err: errors.New("no route")}
	denied := &providers.Fault{Kind: providers.Denied, Err: errors.New("login refused"), Hint: "ask"}
	cases := map[string]struct {
		reasons map[string]string
		errs    map[string]error
		says    string
		kind    providers.Kind // of an error; 0 with none
		failed  bool
	}{
		"all are ready":      {},
		"some are not":       {reasons: map[string]string{"m1": "nothing accepts", "m3": "old"}, says: "m1: nothing accepts; m3: old"},
		"one does not tell":  {errs: map[string]error{"m2": down}, says: "on m2: no route", kind: providers.Unavailable, failed: true},
		"two do not tell":    {errs: map[string]error{"m2": down, "m5": down}, says: "on m2: no route; on m5: no route", kind: providers.Unavailable, failed: true},
		"not ready, and one": {reasons: map[string]string{"m1": "old"}, errs: map[string]error{"m2": down}, says: "m1: old; m2 could not be asked: no route"},
		"a definite no":      {reasons: map[string]string{"m1": "old"}, errs: map[string]error{"m2": down, "m7": denied}, says: "on m2: no route; on m7: login refused", kind: providers.Denied, failed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reason, err := fleet(1).Look(t.Context(), eight(), func(_ context.Context, _ host.Host, m Machine) (string, error) {
				return tc.reasons[m.Host], tc.errs[m.Host]
			})
			if tc.failed != (err != nil) || tc.failed && (err.Error() != tc.says || providers.KindOf(err) != tc.kind) || !tc.failed && reason != tc.says {
				t.Errorf("reason %q, error %v (%v), expected %q", reason, err, providers.KindOf(err), tc.says)
			}
		})
	}
	if _, err := fleet(1).Look(t.Context(), nil, nil); providers.KindOf(err) != providers.Invalid || err == nil {
		t.Errorf("error %v without targets", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fleet(1).Look(ctx, eight(), nil); !providers.Lost(err) {
		t.Errorf("error %v, expected the caller's", err)
	}
}

// TestLookAsksAtOnce: a slot with many machines that are slow to answer fits
// into one call of the engine.
func TestLookAsksAtOnce(t *testing.T) {
	var meet sync.WaitGroup
	meet.Add(len(eight()))
	if reason, err := fleet(1).Look(t.Context(), eight(), func(context.Context, host.Host, Machine) (string, error) {
		meet.Done()
		meet.Wait() // all are at work
		return "", nil
	}); reason != "" || err != nil {
		t.Errorf("reason %q, error %v", reason, err)
	}
}

// TestASilentPortOfASilentMachine: only a machine that answers otherwise can
// be said to have nothing at its port.
func TestASilentPortOfASilentMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		fate   hosttest.Fate
		reason string
	}{"answers otherwise": {hosttest.Done, "nothing accepts connections at 127.0.0.1:80"}, "is gone": {hosttest.Lost, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &hosttest.Machine{
				Program: func([]string) host.Result { return host.Result{} },
				Fate: func(c hosttest.Call) hosttest.Fate {
					if c.Kind == "connect" {
						return hosttest.Hang
					}
					return tc.fate
				},
			}
			reason, err := accepts(t.Context(), m, "127.0.0.1", 80, time.Millisecond)
			if reason != tc.reason || (err != nil) != (tc.reason == "") || err != nil && providers.KindOf(err) != providers.Unknown {
				t.Errorf("reason %q, error %v, expected %q", reason, err, tc.reason)
			}
		})
	}
}
