package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/state"
	"github.com/manent/action/state/checkpoint"
)

// good is a small document that is right.
func good() *state.Document {
	return running(&state.Document{Schema: state.Schema, Key: key, Seq: 3, Nonce: "N3", Written: start, Note: "a <b> & c"})
}

func TestEncodeAndDecode(t *testing.T) {
	want := good()
	score := 98.5
	want.Passes = []state.Pass{{Name: "eu", Serving: state.SlotA, Slots: state.Slots{A: state.Release{Version: "1"}, Candidate: state.SlotB}, Share: 2.5}}
	want.Rollout.Stages = []state.Stage{{Name: "25%", Share: 25, Status: state.StageBaking, Score: &score, Readings: []state.Reading{{N: 1, Verdict: "green"}}}}
	want.Rollout.Pause = &state.Pause{ID: "p", Kind: state.PauseDrift, Weights: []state.PartWeights{{ID: "x", Weights: map[string]float64{"b": 1, "a": 2}}}}
	data, err := checkpoint.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.HasSuffix(text, "}\n") || !strings.Contains(text, `{"a":2,"b":1}`) || !strings.Contains(text, "a <b> & c") {
		t.Errorf("%s is not canonical", text)
	}
	got, err := checkpoint.Decode(data, key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDamagedDocuments(t *testing.T) {
	const valid = `{"schema":1,"key":"shop/web/prod","seq":1,"nonce":"n","written":"2026-05-01T12:00:00Z"`
	tests := []struct{ name, data, want string }{
		{"empty", "", "damaged at byte 0 of 0"},
		{"cut short", valid, "damaged at byte 86 of 86"},
		{"garbage", `{"schema":1,"key":"shop/web/prod",seq}`, "damaged at byte 35 of 38"},
		{"wrong type", valid + `,"rollout":7}`, "damaged at byte 98 of 99"},
		{"two documents", valid + `}{}`, "after top-level value"},
		{"an array", `[]`, "damaged at byte 1 of 2"},
		{"null", `null`, "no schema version"},
		{"no schema", `{"key":"shop/web/prod"}`, "no schema version"},
		{"negative schema", `{"schema":-1}`, "schema -1"},
		{"newer schema", `{"schema":2,"anything":"new"}`, "schema 2, this build reads up to 1"},
		{"unknown field", valid + `,"hold":true}`, `unknown field "hold"`},
		{"unknown field below", valid + `,"passes":[{"name":"","slots":{},"share":0,"hold":true}]}`, `unknown field "hold"`},
		{"NaN", valid + `,"passes":[{"name":"","slots":{},"share":NaN}]}`, "invalid character 'N'"},
		{"too large a number", valid + `,"passes":[{"name":"","slots":{},"share":1e999}]}`, "1e999"},
		{"migration without a slot", `{"schema":0,"key":"shop/web/prod","serial":1,"nonce":"n","serving":{}}`, "serving has no slot"},
		{"migration of nonsense", `{"schema":0,"serving":[]}`, "serving is not an object"},
		{"migration without a serial", `{"schema":0,"key":"shop/web/prod","nonce":"n","written":"2026-05-01T12:00:00Z"}`, "seq is 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc, err := checkpoint.Decode([]byte(test.data), key)
			refused(t, err, test.want)
			if doc != nil || providers.HintOf(err) == "" {
				t.Errorf("document %v, hint %q, expected none and one", doc, providers.HintOf(err))
			}
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || providers.KindOf(err) != providers.Invalid || !strings.Contains(err.Error(), want) {
		t.Fatalf("%v, expected an invalid document with %q", err, want)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q takes more than a line", err)
	}
}

// TestChecks: each value that no build writes is refused, on the way out and
// on the way in.
func TestChecks(t *testing.T) {
	changes := map[string]func(*state.Document){
		"seq is 0":            func(d *state.Document) { d.Seq = 0 },
		"no nonce":            func(d *state.Document) { d.Nonce = "" },
		`serving "c"`:         func(d *state.Document) { d.Passes = []state.Pass{{Serving: "c"}} },
		`candidate "x"`:       func(d *state.Document) { d.Passes = []state.Pass{{Slots: state.Slots{Candidate: "x"}}} },
		"share is 101":        func(d *state.Document) { d.Passes = []state.Pass{{Share: 101}} },
		"share is -1":         func(d *state.Document) { d.Passes = []state.Pass{{Share: -1}} },
		`name "eu" is there`:  func(d *state.Document) { d.Passes = []state.Pass{{Name: "eu"}, {Name: "eu"}} },
		`retirement ""`:       func(d *state.Document) { d.Passes = []state.Pass{{Retirement: &state.Retirement{}}} },
		`weight of "b" is -5`: func(d *state.Document) { d.Passes = []state.Pass{{Weights: parts(-5)}} },
		"id is empty":         func(d *state.Document) { d.Rollout.ID = "" },
		"has a slash":         func(d *state.Document) { d.Rollout.ID = "a/b" },
		"no version":          func(d *state.Document) { d.Rollout.Version = "" },
		`status "sleeping"`:   func(d *state.Document) { d.Rollout.Status = "sleeping" },
		`status "done"`:       func(d *state.Document) { d.Rollout.Stages = []state.Stage{{Status: "done"}} },
		`verdict "great"`:     func(d *state.Document) { d.Rollout.Stages = stage(state.Reading{Verdict: "great"}) },
		"score is 200":        func(d *state.Document) { d.Rollout.Stages = stage(state.Reading{Verdict: "green", Score: number(200)}) },
		"achieved is -2":      func(d *state.Document) { d.Rollout.Stages = []state.Stage{{Status: "baking", Achieved: -2}} },
		`state "doing"`:       func(d *state.Document) { d.Rollout.Steps = []state.Step{{State: "doing"}} },
		`name "x" is there twice`: func(d *state.Document) {
			d.Rollout.Steps = []state.Step{{Name: "x", State: "done"}, {Name: "x", State: "done"}}
		},
		"share is 1000": func(d *state.Document) {
			d.Rollout.Steps = []state.Step{{State: "done", Intent: &state.Intent{Share: 1000}}}
		},
		`weight of "b" is -1`: func(d *state.Document) {
			d.Rollout.Steps = []state.Step{{State: "done", Intent: &state.Intent{To: parts(-1)}}}
		},
		`pause "lunch"`:    func(d *state.Document) { d.Rollout.Pause = &state.Pause{Kind: "lunch"} },
		`decision "maybe"`: func(d *state.Document) { d.Rollout.Decisions = []state.Decision{{Verb: "maybe"}} },
		`status "running"`: func(d *state.Document) { d.History = []state.Past{{ID: "r0", Status: state.Running}} },
		"lease: no id":     func(d *state.Document) { d.Lease = &state.Lease{} },
		"key is \"a/b/c\"": func(d *state.Document) { d.Key = "a/b/c" },
	}
	for want, change := range changes {
		t.Run(want, func(t *testing.T) {
			doc := good()
			change(doc)
			data, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			_, err = checkpoint.Decode(data, key)
			refused(t, err, want)
			if doc.Key == key {
				_, err = checkpoint.Encode(doc)
				refused(t, err, want)
			}
		})
	}
}

func TestNumbersThatAreNone(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for name, change := range map[string]func(*state.Document){
			"share":  func(d *state.Document) { d.Passes = []state.Pass{{Share: value}} },
			"weight": func(d *state.Document) { d.Passes = []state.Pass{{Weights: parts(value)}} },
			"score":  func(d *state.Document) { d.Rollout.Stages = stage(state.Reading{Verdict: "red", Score: number(value)}) },
		} {
			doc := good()
			change(doc)
			if _, err := checkpoint.Encode(doc); providers.KindOf(err) != providers.Invalid || err == nil {
				t.Errorf("%s %v: %v, expected it to be refused", name, value, err)
			}
		}
	}
}

func parts(weight float64) []state.PartWeights {
	return []state.PartWeights{{ID: "p", Weights: map[string]float64{"b": weight}}}
}

func stage(reading state.Reading) []state.Stage {
	return []state.Stage{{Name: "25%", Status: state.StageBaking, Readings: []state.Reading{reading}}}
}

func number(v float64) *float64 { return &v }

func TestSizeLimit(t *testing.T) {
	doc := good()
	doc.Note = strings.Repeat("x", store.MaxDocument)
	if _, err := checkpoint.Encode(doc); !errors.Is(err, store.ErrTooLarge) || providers.KindOf(err) != providers.Invalid {
		t.Errorf("encode: %v, expected store.ErrTooLarge", err)
	}
	if _, err := checkpoint.Decode(bytes.Repeat([]byte(" "), store.MaxDocument+1), key); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("decode: %v, expected store.ErrTooLarge", err)
	}
}

// TestMigrations: every older schema has a sample that comes out as wanted,
// and the next write is of this build's schema.
func TestMigrations(t *testing.T) {
	for version, name := range [state.Schema]string{"v0"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatalf("schema %d has no sample: %v", version, err)
		}
		want, err := os.ReadFile("testdata/" + name + ".want.json")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := checkpoint.Decode(data, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := checkpoint.Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("schema %d (-want +got):\n%s", version, diff)
		}
	}
}

func TestMigratedDocumentIsSavedInThisSchema(t *testing.T) {
	data, err := os.ReadFile("testdata/v0.json")
	if err != nil {
		t.Fatal(err)
	}
	nonce := nonces()
	place := seeded(t, nonce)
	if err := place.Plant(key, data); err != nil {
		t.Fatal(err)
	}
	session, doc := loaded(t, place, nonce)
	save(t, session, running(doc), "on")
	if doc.Seq != 8 || doc.Schema != state.Schema || doc.Pass("").Slots.B.Version != "1.4.0" {
		t.Fatalf("%+v", doc)
	}
	engine, doc := loaded(t, place, nonce)
	decide(t, place, nonce, "ann")
	if err := engine.SaveOutcome(t.Context(), doc, "done", nil, nil); err != nil {
		t.Fatal(err)
	}
}

func TestDigest(t *testing.T) {
	digest := func(value any) string {
		d, err := checkpoint.Digest(value)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := digest(json.RawMessage(`{"b": [1, 2.50], "a": {"y": null, "x": "ü"}}`))
	if b := digest(json.RawMessage(`{"a":{"x":"\u00fc","y":null},"b":[1,2.50]}`)); a != b {
		t.Errorf("two spellings of one value: %s and %s", a, b)
	}
	if b := digest(json.RawMessage(`{"a":{"x":"ü","y":null},"b":[2.50,1]}`)); a == b {
		t.Error("the order of a list is not in the digest")
	}
	if got, want := digest(map[string]int{}), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; got != want {
		t.Errorf("digest of {} is %s, expected its sha256 %s", got, want)
	}
	if _, err := checkpoint.Digest(math.NaN()); err == nil {
		t.Error("NaN has a digest")
	}
}

func FuzzDecode(f *testing.F) {
	data, err := checkpoint.Encode(good())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, name := range []string{"testdata/v0.json", "testdata/v0.want.json"} {
		sample, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sample)
	}
	f.Add([]byte(`{"schema":0,"serving":{"slot":1}}`))
	f.Add([]byte(`{"schema":1,"rollout":{"config":null,"stages":[{"memory":[1]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := checkpoint.Decode(data, key)
		if err != nil {
			if doc != nil || providers.KindOf(err) != providers.Invalid {
				t.Fatalf("%v with %v, expected an invalid document and nothing else", doc, err)
			}
			return
		}
		once, err := checkpoint.Encode(doc)
		if errors.Is(err, store.ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		again, err := checkpoint.Decode(once, key)
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		if twice, err := checkpoint.Encode(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
	})
}
