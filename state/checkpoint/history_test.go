package checkpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/memory"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

func TestArchive(t *testing.T) {
	doc := running(&state.Document{})
	if _, err := checkpoint.Archive(doc, ""); err == nil || doc.Rollout == nil {
		t.Fatalf("a running rollout was archived: %v", err)
	}
	doc.Rollout.Status, doc.Rollout.Ended = state.Returned, start.Add(time.Hour)
	doc.Rollout.Failure = &state.Failure{Reason: "errors: ratio 3"}
	doc.Rollout.Stages = []state.Stage{{Count: 3}, {Count: 4}}
	for i := range state.HistoryLimit {
		doc.History = append(doc.History, state.Past{ID: fmt.Sprint("old", i)})
	}
	kept := slices.Clone(doc.History)
	drop, err := checkpoint.Archive(doc, "1.9")
	if err != nil || !slices.Equal(drop, []string{"readings/old9/"}) {
		t.Fatalf("drop %q, %v", drop, err)
	}
	want := state.Past{
		ID: "r1", Version: "2.0", Status: state.Returned, Attempt: 1, Started: start, Ended: start.Add(time.Hour),
		Replaced: "1.9", Reason: "errors: ratio 3", Readings: 7,
	}
	if diff := cmp.Diff(append([]state.Past{want}, kept[:9]...), doc.History); diff != "" || doc.Rollout != nil {
		t.Errorf("history (-want +got):\n%s\nrollout %v", diff, doc.Rollout)
	}
	if drop, err = checkpoint.Archive(doc, ""); drop != nil || err != nil || len(doc.History) != state.HistoryLimit {
		t.Errorf("archived nothing: %q, %v", drop, err)
	}
}

func TestArchiveKeepsReadingsThatAreStillNamed(t *testing.T) {
	doc := running(&state.Document{})
	doc.Rollout.Status = state.Completed
	for range state.HistoryLimit {
		doc.History = append(doc.History, state.Past{ID: "r1", Status: state.Returned}) // earlier attempts
	}
	if drop, err := checkpoint.Archive(doc, ""); err != nil || drop != nil {
		t.Fatalf("drop %q, %v, expected none", drop, err)
	}
}

// counted is a store that counts the bytes of documents and objects.
type counted struct {
	store.Store
	read, written, calls int
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, store.Revision, error) {
	data, revision, err := c.Store.Get(ctx, key)
	c.read += len(data)
	c.calls++
	return data, revision, err
}

func (c *counted) Put(ctx context.Context, key string, change store.Change, expect store.Revision) (store.Revision, error) {
	c.written += len(change.Data)
	for _, object := range change.Objects {
		c.written += len(object)
	}
	return c.Store.Put(ctx, key, change, expect)
}

// TestDocumentsStayFlat runs many rollouts through one document. What a step
// reads and writes must not grow with the rollouts that came before, but for
// the digits of the sequence number.
func TestDocumentsStayFlat(t *testing.T) {
	place, nonce := memory.New(), nonces()
	perStep := map[int][2]int{}
	objects := map[int]int{}
	const full = state.HistoryLimit + 1 // the first with a full history throughout
	for n := range many + 1 {
		counter := &counted{Store: place}
		rollOut(t, counter, nonce, fmt.Sprintf("r%06d", n))
		if n == full || n == many {
			perStep[n] = [2]int{counter.read / counter.calls, counter.written / counter.calls}
			objects[n] = len(place.Objects(key))
			t.Logf("rollout %d: %d bytes read, %d bytes written per step; %d side objects", n, perStep[n][0], perStep[n][1], objects[n])
		}
	}
	const digits = 2 // the sequence number goes from two of them to four
	for i, what := range []string{"read", "written"} {
		if perStep[many][i] > perStep[full][i]+digits || perStep[full][i] == 0 {
			t.Errorf("%d bytes %s per step at rollout %d, %d at rollout %d", perStep[many][i], what, many, perStep[full][i], full)
		}
	}
	if objects[many] != objects[full] || objects[full] == 0 {
		t.Errorf("%d side objects at rollout %d, %d at rollout %d", objects[many], many, objects[full], full)
	}
}

// rollOut takes one version through two shares with a reading each, a
// fresh session for every step.
func rollOut(t *testing.T, s store.Store, nonce func() string, id string) {
	t.Helper()
	step := func(note string, objects map[string][]byte, change func(*state.Document) []string) {
		session, doc := loaded(t, s, nonce)
		if err := session.Save(t.Context(), doc, note, objects, change(doc)); err != nil {
			t.Fatal(err)
		}
	}
	step("begun", nil, func(doc *state.Document) []string {
		drop, err := checkpoint.Archive(doc, "before")
		if err != nil {
			t.Fatal(err)
		}
		running(doc)
		doc.Rollout.ID, doc.Rollout.Config = id, json.RawMessage(`{"steps":[25,100]}`)
		return drop
	})
	for _, share := range []float64{25, 100} {
		name := fmt.Sprintf("%v%%", share)
		step("traffic@"+name, nil, func(doc *state.Document) []string {
			doc.Rollout.Stages = append(doc.Rollout.Stages, state.Stage{Name: name, Share: share, Status: state.StageBaking})
			doc.Rollout.Steps = append(doc.Rollout.Steps, state.Step{Name: "traffic@" + name, State: state.Done, Message: strings.Repeat("m", 80)})
			return nil
		})
		for n := range 1 {
			object := checkpoint.ReadingName(id, name, n)
			step("gate@"+name, map[string][]byte{object: []byte(strings.Repeat("r", 500))}, func(doc *state.Document) []string {
				stage := doc.Rollout.Stage(name)
				stage.Count++
				stage.Readings = append(stage.Readings, state.Reading{N: n, Verdict: "green", Object: object})
				return nil
			})
		}
	}
	step("completed", nil, func(doc *state.Document) []string {
		doc.Rollout.Status = state.Completed
		return nil
	})
}
