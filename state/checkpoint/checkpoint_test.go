package checkpoint_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

func TestLoadOfAnAbsentKey(t *testing.T) {
	_, doc := loaded(t, memory.New(), nonces())
	if diff := cmp.Diff(&state.Document{Schema: state.Schema, Key: key}, doc); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestSaveStampsAndComesBack(t *testing.T) {
	place, nonce := memory.New(), nonces()
	session, doc := loaded(t, place, nonce)
	running(doc)
	objects := map[string][]byte{checkpoint.ReadingName("r1", "25%", 3): []byte("{}")}
	if err := session.Save(t.Context(), doc, "begun", objects, nil); err != nil {
		t.Fatal(err)
	}
	want := running(&state.Document{Schema: state.Schema, Key: key, Seq: 1, Nonce: "N000001", Written: start, Note: "begun"})
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("saved document (-want +got):\n%s", diff)
	}
	if _, found := loaded(t, place, nonce); !cmp.Equal(want, found) {
		t.Errorf("found (-want +got):\n%s", cmp.Diff(want, found))
	}
	if got := place.Objects(key); !slices.Equal(got, []string{"readings/r1/25%/3.json"}) {
		t.Errorf("objects %q", got)
	}
	entries, err := place.Log(t.Context(), key, 5)
	if err != nil || len(entries) != 1 || entries[0].Note != "#1 begun" {
		t.Errorf("history %v, %v, expected one entry, numbered", entries, err)
	}
	save(t, session, doc, "again")
	if doc.Seq != 2 || doc.Note != "again" || doc.Nonce != "N000002" {
		t.Errorf("second write is stamped %d %q %q", doc.Seq, doc.Note, doc.Nonce)
	}
}

func TestSaveBeforeLoad(t *testing.T) {
	if err := open(memory.New(), nonces()).Save(t.Context(), &state.Document{}, "", nil, nil); err == nil {
		t.Fatal("a document was written over one that was never read")
	}
}

// TestLast: what was loaded or saved last comes back without a call, as a copy.
func TestLast(t *testing.T) {
	s := memory.New()
	if _, err := open(s, nonces()).Last(); err == nil {
		t.Fatal("there is a document although none was loaded")
	}
	session, doc := loaded(t, s, nonces())
	s.Hook = memory.At("get", 1, memory.Refused)
	if last, err := session.Last(); err != nil || last.Key != key || last.Seq != 0 {
		t.Fatalf("%+v, %v, expected the empty document", last, err)
	}
	save(t, session, running(doc), "begins")
	first, err := session.Last()
	if err != nil || first.Seq != 1 || first.Rollout == nil {
		t.Fatalf("%+v, %v, expected the document that was saved", first, err)
	}
	first.Rollout.Version = "3.0"
	if again, err := session.Last(); err != nil || again.Rollout.Version != "2.0" {
		t.Fatalf("%+v, %v, expected a copy each time", again, err)
	}
}

// TestOneFault: whatever befalls one write, Save finds out what became of it,
// and the write is there once.
func TestOneFault(t *testing.T) {
	for _, fault := range memory.Faults() {
		t.Run(fault.String(), func(t *testing.T) {
			place, nonce := memory.New(), nonces()
			place.Hook = memory.At("put", 1, fault)
			session, doc := loaded(t, place, nonce)
			err := session.Save(t.Context(), running(doc), "begun", nil, nil)
			if fault == memory.KillBefore || fault == memory.KillAfter {
				unsure(t, err)
				if !errors.Is(err, memory.ErrKilled) || doc.Seq != 0 {
					t.Fatalf("%v, document stamped %d", err, doc.Seq)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			place.Settle()
			if entries, err := place.Log(t.Context(), key, 5); err != nil || len(entries) != 1 {
				t.Fatalf("%d writes have landed, %v, expected one", len(entries), err)
			}
			_, found := loaded(t, place, nonce)
			if found.Seq != 1 || found.Nonce != doc.Nonce {
				t.Fatalf("found write %d %q, expected 1 %q", found.Seq, found.Nonce, doc.Nonce)
			}
			save(t, session, doc, "next")
		})
	}
}

func TestStoreThatStaysDown(t *testing.T) {
	for name, fault := range map[string]memory.Fault{"refused": memory.Refused, "lost": memory.Lost} {
		t.Run(name, func(t *testing.T) {
			place := seeded(t, nonces())
			down := place.Again()
			down.Hook = func(op, _ string) memory.Fault {
				if op == "put" {
					return fault
				}
				return memory.None
			}
			session, doc := loaded(t, down, nonces())
			unsure(t, session.Save(t.Context(), doc, "x", nil, nil))
			if doc.Seq != 1 {
				t.Errorf("the document was stamped %d though nobody knows", doc.Seq)
			}
		})
	}
	t.Run("reads too", func(t *testing.T) {
		place := seeded(t, nonces())
		session, doc := loaded(t, place, nonces())
		place.Hook = func(string, string) memory.Fault { return memory.Unanswered }
		unsure(t, session.Save(t.Context(), doc, "x", nil, nil))
	})
}

func unsure(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*checkpoint.Unsure](err); !ok {
		t.Fatalf("%v, expected *Unsure", err)
	}
	if providers.KindOf(err) != providers.Unknown || providers.HintOf(err) == "" {
		t.Errorf("kind %q, hint %q", providers.KindOf(err), providers.HintOf(err))
	}
	if _, ok := errors.AsType[*checkpoint.Conflict](err); ok {
		t.Error("a silence was called a conflict")
	}
}

// TestRefusals: an answer of the store that decides is passed on at once; a
// conflict over what has not changed is never believed.
func TestRefusals(t *testing.T) {
	tests := []struct {
		kind  providers.Kind
		sure  bool
		calls int
	}{
		{providers.Denied, true, 1},
		{providers.Invalid, true, 1},
		{providers.NotFound, true, 1},
		{providers.Conflict, false, 4},
		{providers.Throttled, false, 4},
	}
	for _, test := range tests {
		t.Run(test.kind.String(), func(t *testing.T) {
			answer := &providers.Fault{Provider: "x", Op: "put", Kind: test.kind, Err: errors.New("no")}
			place := &stubborn{Store: seeded(t, nonces()), err: answer}
			session, doc := loaded(t, place, nonces())
			err := session.Save(t.Context(), doc, "x", nil, nil)
			if test.sure && !errors.Is(err, answer) {
				t.Errorf("%v, expected the store's own fault", err)
			}
			if !test.sure {
				unsure(t, err)
			}
			if place.calls != test.calls {
				t.Errorf("%d writes sent, expected %d", place.calls, test.calls)
			}
		})
	}
}

func TestConflict(t *testing.T) {
	place, nonce := seeded(t, nonces()), nonces()
	slow, mine := loaded(t, place, nonce)
	fast, theirs := loaded(t, place, nonce)
	theirs.Rollout.Status = state.Drifted
	save(t, fast, theirs, "returning")
	mine.Rollout.Status = state.Waiting
	err := slow.Save(t.Context(), mine, "waiting", nil, nil)
	conflict, ok := errors.AsType[*checkpoint.Conflict](err)
	if !ok || !providers.IsConflict(err) {
		t.Fatalf("%v, expected *Conflict", err)
	}
	if diff := cmp.Diff(theirs, conflict.Found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), `write 2 ("returning")`) || !strings.Contains(err.Error(), "write 1 was expected") {
		t.Errorf("%v, expected both writes to be named", err)
	}
	if mine.Seq != 1 {
		t.Errorf("the refused document was stamped %d", mine.Seq)
	}
	again, err := slow.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	save(t, slow, again, "after reading again")
}

// TestOwnLateWriteIsNoConflict: a write that nobody could tell of lands after
// all, before the same process writes again.
func TestOwnLateWriteIsNoConflict(t *testing.T) {
	place := seeded(t, nonces())
	process := place.Again()
	down := false
	process.Hook = func(op, _ string) memory.Fault {
		switch {
		case !down:
			return memory.None
		case op == "put":
			return memory.Late
		}
		return memory.Refused
	}
	session, doc := loaded(t, process, nonces())
	down = true
	for i := range 2 { // the first of them will land
		doc.Rollout.Steps = append(doc.Rollout.Steps, state.Step{Name: fmt.Sprint("step ", i), State: state.Done})
		unsure(t, session.Save(t.Context(), doc, "in doubt", nil, nil))
	}
	place.Settle()
	down = false
	doc.Rollout.Status = state.Waiting
	save(t, session, doc, "waiting")
	_, found := loaded(t, place, nonces())
	if found.Seq != 3 || found.Rollout.Status != state.Waiting || len(found.Rollout.Steps) != 2 {
		t.Fatalf("write %d, %+v, expected the third with both steps", found.Seq, found.Rollout)
	}
}

func TestRefusedDocumentIsNotSent(t *testing.T) {
	place := &stubborn{Store: seeded(t, nonces()), err: errors.New("not asked")}
	session, doc := loaded(t, place, nonces())
	doc.Rollout.Status = "sleeping"
	if err := session.Save(t.Context(), doc, "x", nil, nil); providers.KindOf(err) != providers.Invalid || place.calls != 0 {
		t.Fatalf("%v after %d writes, expected none", err, place.calls)
	}
}

func TestTampering(t *testing.T) {
	nonce := nonces()
	versions := make([][]byte, 3) // writes 1 and 2, and another write 2
	place := seeded(t, nonce)
	versions[0], _, _ = place.Get(t.Context(), key)
	fork := memory.New()
	if err := fork.Plant(key, versions[0]); err != nil {
		t.Fatal(err)
	}
	for i, s := range []store.Store{place, fork} {
		session, doc := loaded(t, s, nonce)
		save(t, session, doc, "second")
		versions[i+1], _, _ = s.Get(t.Context(), key)
	}
	for name, planted := range map[string][]byte{"older": versions[0], "same number, other nonce": versions[2]} {
		t.Run(name, func(t *testing.T) {
			place := memory.New()
			if err := place.Plant(key, versions[1]); err != nil {
				t.Fatal(err)
			}
			session, doc := loaded(t, place, nonce)
			if err := place.Plant(key, planted); err != nil {
				t.Fatal(err)
			}
			tampered(t, session.Save(t.Context(), doc, "third", nil, nil))
			_, err := session.Load(t.Context())
			tampered(t, err)
		})
	}
	t.Run("gone", func(t *testing.T) {
		there := &swap{Store: place}
		session, _ := loaded(t, there, nonce)
		there.Store = memory.New()
		_, err := session.Load(t.Context())
		tampered(t, err)
	})
}

// swap is a store whose contents can be exchanged under a session.
type swap struct{ store.Store }

func tampered(t *testing.T, err error) {
	t.Helper()
	if providers.KindOf(err) != providers.Invalid || err == nil || providers.HintOf(err) == "" {
		t.Fatalf("%v (hint %q), expected it to be refused as tampering", err, providers.HintOf(err))
	}
}

// TestRacingSessions: no update is lost when eight processes count.
func TestRacingSessions(t *testing.T) {
	place, nonce := seeded(t, nonces()), nonces()
	const processes, each = 8, 25
	var wait sync.WaitGroup
	for p := range processes {
		wait.Go(func() {
			session := open(place.Again(), nonce)
			for done := 0; done < each; {
				doc, err := session.Load(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				doc.Rollout.Steps = append(doc.Rollout.Steps, state.Step{Name: fmt.Sprint(p, ".", done), State: state.Done})
				err = session.Save(t.Context(), doc, "step", nil, nil)
				if err == nil {
					done++
				} else if !providers.IsConflict(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	_, doc := loaded(t, place, nonce)
	if len(doc.Rollout.Steps) != processes*each || doc.Seq != 1+processes*each {
		t.Fatalf("%d steps after write %d, expected %d", len(doc.Rollout.Steps), doc.Seq, processes*each)
	}
}

// TestEveryFaultAtEveryCall: five steps are recorded by processes that die or
// lose answers anywhere. The next process continues from what it finds; in
// the end every step is there once, by one write each.
func TestEveryFaultAtEveryCall(t *testing.T) {
	const steps = 5
	cases := 0
	for _, fault := range memory.Faults() {
		for k := int64(1); k <= 2*steps+2; k++ {
			place, nonce := memory.New(), nonces()
			process := place.Again()
			process.Hook = memory.At("", k, fault)
			for range 20 {
				if record(t, process, nonce, steps) {
					break
				}
				process = place.Again()
			}
			place.Settle()
			_, doc := loaded(t, place, nonce)
			if doc.Rollout == nil || len(doc.Rollout.Steps) != steps || doc.Seq != steps {
				t.Errorf("%v at call %d: %d writes, document %+v", fault, k, doc.Seq, doc.Rollout)
			}
			cases++
		}
	}
	t.Logf("%d cases", cases)
}

// record makes one process go on until all steps are there; false when it
// ended early.
func record(t *testing.T, s store.Store, nonce func() string, steps int) bool {
	session := open(s, nonce)
	doc, err := session.Load(t.Context())
	for err == nil {
		if doc.Rollout == nil {
			running(doc)
		}
		n := len(doc.Rollout.Steps)
		if n == steps {
			return true
		}
		doc.Rollout.Steps = append(slices.Clip(doc.Rollout.Steps), state.Step{Name: fmt.Sprint("step ", n), State: state.Done})
		err = session.Save(t.Context(), doc, "step", nil, nil)
	}
	return false
}
