package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

func decision(who string) state.Decision {
	return state.Decision{Verb: "approve", Pause: "p1", Attempt: 1, Who: who, From: "here", At: start}
}

// decide appends a decision the way `manent approve` does.
func decide(t *testing.T, s store.Store, nonce func() string, who string) {
	t.Helper()
	session, doc := loaded(t, s, nonce)
	doc.Rollout.Decisions = append(doc.Rollout.Decisions, decision(who))
	save(t, session, doc, "approved by "+who)
}

func TestOutcomeIsRebasedOverDecisions(t *testing.T) {
	nonce := nonces()
	place := seeded(t, nonce)
	decide(t, place, nonce, "ann")
	engine, doc := loaded(t, place, nonce)
	doc.Rollout.Decisions[0].Applied = true
	doc.Rollout.Steps = []state.Step{{Name: "traffic@25", State: state.Done}}
	decide(t, place, nonce, "bob")
	decide(t, place, nonce, "cy")
	if err := engine.SaveOutcome(t.Context(), doc, "traffic@25 done", nil, nil); err != nil {
		t.Fatal(err)
	}
	_, found := loaded(t, place, nonce)
	applied := decision("ann")
	applied.Applied = true
	if diff := cmp.Diff([]state.Decision{applied, decision("bob"), decision("cy")}, found.Rollout.Decisions); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if found.Seq != 5 || len(found.Rollout.Steps) != 1 || !cmp.Equal(doc, found) {
		t.Errorf("found write %d, (-saved +found):\n%s", found.Seq, cmp.Diff(doc, found))
	}
	save(t, engine, doc, "goes on")
}

// TestRebaseUnderFire: decisions keep coming between the engine's tries.
func TestRebaseUnderFire(t *testing.T) {
	nonce := nonces()
	place := seeded(t, nonce)
	for _, test := range []struct {
		times int
		lands bool
	}{{3, true}, {4, false}} {
		busy := &interrupted{Store: place, times: test.times, by: func() { decide(t, place, nonce, "ann") }}
		engine, doc := loaded(t, busy, nonce)
		err := engine.SaveOutcome(t.Context(), doc, "done", nil, nil)
		if test.lands != (err == nil) {
			t.Errorf("%d decisions in between: %v, expected it to land: %v", test.times, err, test.lands)
		}
		if _, isUnsure := errors.AsType[*checkpoint.Unsure](err); !test.lands && !isUnsure {
			t.Errorf("%v, expected *Unsure", err)
		}
	}
}

// interrupted is a store in which somebody else is faster, some times.
type interrupted struct {
	store.Store
	times int
	by    func()
}

func (s *interrupted) Put(ctx context.Context, key string, c store.Change, expect store.Revision) (store.Revision, error) {
	if s.times > 0 {
		s.times--
		s.by()
	}
	return s.Store.Put(ctx, key, c, expect)
}

func TestIntentIsNeverRebased(t *testing.T) {
	nonce := nonces()
	place := seeded(t, nonce)
	engine, doc := loaded(t, place, nonce)
	decide(t, place, nonce, "ann")
	err := engine.Save(t.Context(), doc, "intent", nil, nil)
	if conflict, ok := errors.AsType[*checkpoint.Conflict](err); !ok || len(conflict.Found.Rollout.Decisions) != 1 {
		t.Fatalf("%v, expected *Conflict with the decision", err)
	}
}

func TestOutcomeIsNotRebasedOverAnythingElse(t *testing.T) {
	changes := map[string]func(*state.Document){
		"status":           func(d *state.Document) { d.Rollout.Status = state.Drifted },
		"lease":            func(d *state.Document) { checkpoint.Take(d, state.Lease{ID: "other"}, start) },
		"pass":             func(d *state.Document) { d.Passes = []state.Pass{{Share: 1}} },
		"decision changed": func(d *state.Document) { d.Rollout.Decisions[0].Who = "eve" },
		"decision removed": func(d *state.Document) { d.Rollout.Decisions = nil },
		"rollout gone":     func(d *state.Document) { d.Rollout = nil },
		"other rollout":    func(d *state.Document) { d.Rollout.ID = "r2" },
		"decision and status": func(d *state.Document) {
			d.Rollout.Status = state.Drifted
			d.Rollout.Decisions = append(d.Rollout.Decisions, decision("bob"))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			nonce := nonces()
			place := seeded(t, nonce)
			decide(t, place, nonce, "ann")
			engine, doc := loaded(t, place, nonce)
			before := *doc.Rollout
			other, theirs := loaded(t, place, nonce)
			change(theirs)
			save(t, other, theirs, name)
			err := engine.SaveOutcome(t.Context(), doc, "done", nil, nil)
			if _, ok := errors.AsType[*checkpoint.Conflict](err); !ok {
				t.Fatalf("%v, expected *Conflict", err)
			}
			if diff := cmp.Diff(&before, doc.Rollout); diff != "" {
				t.Errorf("the engine's document was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRebaseOfAnEndedRolloutIsRefused(t *testing.T) {
	nonce := nonces()
	place := seeded(t, nonce)
	engine, doc := loaded(t, place, nonce)
	decide(t, place, nonce, "ann")
	doc.Rollout = nil // archived: the decision would have nowhere to go
	if _, ok := errors.AsType[*checkpoint.Conflict](engine.SaveOutcome(t.Context(), doc, "archived", nil, nil)); !ok {
		t.Fatal("a decision was dropped")
	}
}

func TestRebaseWithALostAnswer(t *testing.T) {
	nonce := nonces()
	place := seeded(t, nonce)
	lossy := place.Again()
	lossy.Hook = memory.At("put", 2, memory.Unanswered)
	engine, doc := loaded(t, lossy, nonce)
	decide(t, place, nonce, "ann")
	if err := engine.SaveOutcome(t.Context(), doc, "done", nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, found := loaded(t, place, nonce); found.Seq != 3 || len(found.Rollout.Decisions) != 1 {
		t.Fatalf("write %d with %d decisions, expected 3 with 1", found.Seq, len(found.Rollout.Decisions))
	}
}

func TestCancelledSave(t *testing.T) {
	nonce := nonces()
	session, doc := loaded(t, seeded(t, nonce), nonce)
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	err := session.Save(ctx, doc, "x", nil, nil)
	unsure(t, err)
	if !providers.Lost(err) {
		t.Fatalf("%v, expected the context's error in its chain", err)
	}
}
