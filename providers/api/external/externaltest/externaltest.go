//go:build unix

// Package externaltest is a plugin as anybody might write one, with its world
// in one file, for the tests of whatever speaks the protocol. It must not know
// who does. It is written against the protocol's documentation, so it has its
// own idea of every document.
package externaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// World is everything that the plugin acts on.
type World struct {
	Parts    []*Part            `json:"parts"`
	Testers  bool               `json:"testers"`
	Versions map[string]string  `json:"versions"` // by slot
	Capacity map[string]float64 `json:"capacity"` // by slot, percent; all of it for a slot that nobody has scaled
	Writes   int                `json:"writes"`   // changes of weights
	Hold     bool               `json:"hold"`     // what is written is not in force
	Late     []Weights          `json:"late"`     // writes on their way
	Log      []string           `json:"log"`      // requests that came

	// Moods of the world, by request; "" is fine. See the constants.
	Moods  map[string]string `json:"moods"`
	After  int               `json:"after"`  // the mood is for the n-th request of the kind and all requests after it; 0 for each
	Count  int               `json:"count"`  // of these
	Spills string            `json:"spills"` // a secret, printed at every opportunity

	Careless bool   `json:"careless"` // it takes anything for a request, and leaves out whatever takes an effort
	Loose    bool   `json:"loose"`    // write does not compare
	Idle     bool   `json:"idle"`     // deploy brings no capacity
	Fickle   bool   `json:"fickle"`   // deploy gives another reference each time
	Empty    bool   `json:"empty"`    // no server of slot b is up
	Plans    bool   `json:"plans"`
	Odd      string `json:"odd"`                // a part of whose shares it says nonsense, and that it cannot plan
	Describe any    `json:"describe,omitempty"` // what describe says instead
}

// Moods. An error is "error <kind>".
const (
	NotYet    = "not yet"   // not ready
	Refuses   = "refuses"   // invalid, with the secret in message and log
	Hangs     = "hangs"     // says so in the file started, and never answers
	Dies      = "dies"      // is killed before it does anything
	Between   = "between"   // writes one part, and is killed
	Mute      = "mute"      // does it, and is killed
	LateMood  = "late"      // is killed, and it happens later
	Half      = "half"      // does it, and gives half of the answer
	Silent    = "silent"    // does it, and ends with 0 and no answer
	Twice     = "twice"     // does it, and answers twice
	Garbage   = "garbage"   // does it, and answers something else
	Huge      = "huge"      // does it, and never stops answering
	Stubborn  = "stubborn"  // does it, ignores SIGTERM, and never answers
	Family    = "family"    // leaves children that hold its output
	OtherID   = "other id"  // answers another request
	OtherVers = "protocol"  // answers in another protocol
	Fails     = "exit code" // does it, answers, and ends with 3
	Tells     = "tells"     // puts the secret into the result
)

// Part is one part of the router.
type Part struct {
	ID       string             `json:"id"`
	Weights  map[string]float64 `json:"weights"`
	Live     map[string]float64 `json:"live"`
	Revision int                `json:"revision"`
	Unowned  string             `json:"unowned"`
	Down     bool               `json:"down"`
}

// Put gives a part other weights, in force at once.
func (p *Part) Put(weights map[string]float64) {
	p.Weights, p.Live = maps.Clone(weights), maps.Clone(weights)
	p.Revision++
}

// Weights of one part, on their way.
type Weights struct {
	ID      string             `json:"id"`
	Weights map[string]float64 `json:"weights"`
	From    map[string]float64 `json:"from,omitempty"`

	Revision int `json:"revision,omitempty"` // of the part when a late write was sent
}

// New is a world of so many parts in which slot a serves.
func New(parts int) World {
	w := World{Versions: map[string]string{}, Capacity: map[string]float64{}, Moods: map[string]string{}}
	for i := range parts {
		all := map[string]float64{"a": 100, "b": 0}
		w.Parts = append(w.Parts, &Part{ID: fmt.Sprintf("part-%d", i+1), Weights: all, Live: maps.Clone(all), Unowned: "somebody's"})
	}
	return w
}

// file is the world's file below a folder.
func file(dir string) string { return filepath.Join(dir, "world.json") }

// Put writes a world.
func Put(dir string, w World) error {
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file(dir)+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file(dir)+".new", file(dir))
}

// Get reads the world.
func Get(dir string) (World, error) {
	var w World
	data, err := os.ReadFile(file(dir))
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(data, &w)
}

// Change changes the world while nobody else does.
func Change(dir string, change func(*World) error) (err error) {
	lock, err := os.OpenFile(file(dir)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	w, err := Get(dir)
	if err != nil {
		return err
	}
	failed := change(&w)
	return errors.Join(failed, Put(dir, w))
}

// Land lets the writes that are on their way arrive.
func Land(dir string) error {
	return Change(dir, func(w *World) error {
		for _, late := range w.Late {
			if p := w.part(late.ID); w.Loose || p.Revision == late.Revision { // else the system refuses the straggler
				_ = w.set(late)
			}
		}
		w.Late = nil
		return nil
	})
}

func (w *World) part(id string) *Part {
	if i := slices.IndexFunc(w.Parts, func(p *Part) bool { return p.ID == id }); i >= 0 {
		return w.Parts[i]
	}
	return nil
}

// set writes one part.
func (w *World) set(to Weights) *refusal {
	p := w.part(to.ID)
	switch {
	case p == nil && w.Careless:
		return nil
	case p == nil:
		return &refusal{Kind: "not found", Message: "there is no part " + to.ID}
	case maps.Equal(p.Weights, to.Weights) && !w.Careless:
		return nil
	case !w.Loose && !w.Careless && !maps.Equal(p.Weights, to.From):
		return &refusal{
			Kind: "conflict", Message: fmt.Sprintf("part %s has %v", p.ID, p.Weights),
			Drift: map[string]any{"part": p.ID, "seen": p.Weights},
		}
	}
	p.Weights = maps.Clone(to.Weights)
	if !w.Hold {
		p.Live = maps.Clone(to.Weights)
	}
	p.Revision++
	w.Writes++
	return nil
}

// refusal is an error answer.
type refusal struct {
	Kind    string         `json:"kind"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Drift   map[string]any `json:"drift,omitempty"`
}

func (r *refusal) Error() string { return r.Message }

// Main is the plugin's main function: the world is in the working directory.
// It returns the exit code.
func Main(in io.Reader, out, log io.Writer) int {
	data, err := io.ReadAll(in)
	if err != nil {
		return 1
	}
	var q question
	if err := json.Unmarshal(data, &q); err != nil && careless() {
		q = question{ID: "x", Protocol: 1, Request: "describe"}
	} else if err != nil {
		_, _ = fmt.Fprintln(log, "this is no request:", err)
		return 2
	}
	var answer reply
	mood := ""
	err = Change(".", func(w *World) error {
		mood = w.mood(q.Request)
		answer = w.answer(q, mood, log)
		return nil
	})
	if err != nil {
		_, _ = fmt.Fprintln(log, err)
		return 1
	}
	return answer.say(q, mood, out)
}

// careless reports whether the world here is.
func careless() bool {
	w, err := Get(".")
	return err == nil && w.Careless
}

// mood is how this request goes, "" for well.
func (w *World) mood(request string) string {
	w.Log = append(w.Log, request)
	if w.After == 0 {
		return w.Moods[request]
	}
	if w.Moods[request] != "" {
		w.Count++
		if w.Count == w.After {
			return w.Moods[request]
		}
	}
	if w.Count >= w.After && request != "describe" {
		return Dies
	}
	return ""
}

// Build compiles the plugin into a folder and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "plugin")
	const source = "github.com/manent/action/providers/api/external/externaltest/testdata/program"
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the plugin: %w: %s", err, text)
	}
	return program, nil
}
