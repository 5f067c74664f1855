package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/metric"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

func TestSideStoresEveryValue(t *testing.T) {
	side := Side{
		State: Answered, Query: `a < b && "c"`, From: noon(), To: noon().Add(time.Minute), Step: 15 * time.Second, Partial: true,
		Seen: &Window{From: noon(), To: noon(), Step: time.Minute}, Warnings: []string{"w"}, Error: "e",
	}
	for i, v := range []float64{0, math.Copysign(0, -1), 0.1, 1.0 / 3, 5e-324, math.MaxFloat64, -1e21, math.NaN(), math.Inf(1), math.Inf(-1)} {
		side.Points = append(side.Points, metric.Point{At: noon().Add(time.Duration(i) * time.Nanosecond), Value: v})
	}
	data, err := json.Marshal(side)
	if err != nil {
		t.Fatal(err)
	}
	var got Side
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(side, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	for i, p := range got.Points {
		if want := side.Points[i].Value; !math.IsNaN(want) && math.Float64bits(p.Value) != math.Float64bits(want) {
			t.Errorf("%v came back as %v", want, p.Value)
		}
	}
}

func TestValueThatIsNone(t *testing.T) {
	for _, text := range []string{`null`, `"0"`, `"inf"`, `""`, `true`, `{}`, `1e999`} {
		var s Side
		if err := json.Unmarshal([]byte(`{"points":[{"at":"2026-11-30T12:00:00Z","value":`+text+`}]}`), &s); err == nil {
			t.Errorf("%s was read as %v", text, s.Points)
		}
	}
}

// replay stores a reading, reads it back and judges it again.
func replay(r Record) (stored, again []byte, err error) {
	if stored, err = json.Marshal(r); err != nil {
		return nil, nil, err
	}
	var back Record
	if err := json.Unmarshal(stored, &back); err != nil {
		return nil, nil, err
	}
	// Only what came back may be looked at.
	if back.Verdict != Void {
		back.Verdict, back.Reason, back.Score = "", "", nil
		for i := range back.Metrics {
			m := &back.Metrics[i]
			m.Result, m.Rule, m.Reason, m.Weight, m.Critical = "", "", "", 0, false
		}
		for i := range back.Alarms {
			back.Alarms[i].Result, back.Alarms[i].Reason = "", ""
		}
	}
	again, err = json.Marshal(Replay(back))
	return stored, again, err
}

func TestReplay(t *testing.T) {
	records := map[string]Record{"void": Voided(config.Health{}, subject(true), "weights 50, expected 10")}
	for _, s := range slices.Concat(situations(), ofRanks(), ofCounts()) {
		for _, atEnd := range []bool{false, true} {
			records[fmt.Sprintf("%s, at end %t", s.name, atEnd)] = s.judge(atEnd)
		}
	}
	h := config.Health{
		Interval: ofMinutes(1), Analysis: &config.Analysis{Pass: 95, Marginal: 75}, Metrics: []config.Metric{errorRatio()},
		Probes: []config.Probe{{Name: "home"}, {Name: "other"}}, Alarms: []config.Alarm{{Name: "a", Provider: "cloudwatch", Alarm: "x"}},
	}
	s := subject(false)
	s.Course.Memory = json.RawMessage(`{"e":1}`)
	s.Stage = "eu/10%"
	records["everything"] = Judge(h, s, Answers{"errors/candidate": is(math.NaN()), AlarmID("cloudwatch", "x"): failed(providers.Denied, "x")},
		[]ProbeResult{{Name: "home", URL: "https://10.0.1.10/", Result: Pass, Status: 200, Reason: "status 200"}})
	for name, r := range records {
		t.Run(name, func(t *testing.T) {
			stored, again, err := replay(r)
			if err != nil {
				t.Fatal(err)
			}
			if string(stored) != string(again) {
				t.Errorf("stored %s\nagain  %s", stored, again)
			}
		})
	}
}

// A record that was cut or changed is never judged better than what it holds.
func TestReplayOfATamperedRecord(t *testing.T) {
	good := situations()[0].judge(true)
	tests := map[string]func(*Record){
		"metric taken out":     func(r *Record) { r.Metrics = nil },
		"side taken out":       func(r *Record) { r.Metrics[0].Stable = nil },
		"requests taken out":   func(r *Record) { r.Metrics[0].Samples = nil },
		"state not known":      func(r *Record) { r.Metrics[0].Candidate.State = "" },
		"probe result unknown": func(r *Record) { r.Probes = []ProbeResult{{Name: "home"}} },
		"alarm without a look": func(r *Record) { r.Alarms = []AlarmResult{{Name: "a", Result: Pass}} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			data, _ := json.Marshal(good)
			var r Record
			if err := json.Unmarshal(data, &r); err != nil {
				t.Fatal(err)
			}
			change(&r)
			if got := Replay(r); got.Verdict != Error {
				t.Errorf("%s: %s", got.Verdict, got.Reason)
			}
		})
	}
}

func TestReplayLeavesItsArgumentAlone(t *testing.T) {
	r := situations()[0].judge(true)
	r.Metrics[0].Result, r.Alarms = Fail, []AlarmResult{{Name: "a", Result: Pass}}
	Replay(r)
	if r.Metrics[0].Result != Fail || r.Alarms[0].Result != Pass {
		t.Error("Replay changed the record it was given")
	}
}

// picker draws choices from the bytes of a fuzz input.
type picker struct{ data []byte }

func (p *picker) n(limit int) int {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return int(b) % limit
}

func pick[T any](p *picker, of ...T) T { return of[p.n(len(of))] }

// often is usual in seven draws of eight.
func often[T any](p *picker, usual T, others ...T) T {
	if p.n(8) != 7 {
		return usual
	}
	return pick(p, others...)
}

func (p *picker) value() float64 {
	return pick(p, 0, 0.01, 0.01, 0.02, 1, 300, 300, 3604, 3604, -1, 5e-324, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 19.0/396)
}

func (p *picker) limit() *float64 {
	return pick(p, nil, ptr(0.0), ptr(0.05), ptr(1.5), ptr(-1.0), ptr(1e9))
}

func (p *picker) answer() metric.Answer {
	a := metric.Answer{Err: often(p, nil, metric.ErrNoData, metric.ErrNoData, metric.ErrSeveral, errors.New("lost")), Partial: p.n(32) == 31}
	for range often(p, 1, 0, 2) {
		a.Points = append(a.Points, metric.Point{At: minute(often(p, 10, 8, 1, -1, 99.0)), Value: p.value()})
	}
	if p.n(16) == 15 {
		a.From, a.To = minute(pick(p, 5, 0, -1.0)), minute(pick(p, 10, 2.0))
	}
	return a
}

func (p *picker) metric(name string) config.Metric {
	return config.Metric{
		Name: name, Provider: often(p, "prometheus", "prometheus", "gone"), Query: often(p, `q{track="{track}"}`, "q", "{host}"),
		Compare: pick(p, "stable", ""), Max: p.limit(), Min: p.limit(), MaxRatio: p.limit(), MinRatio: p.limit(), MaxDelta: p.limit(),
		SamplesQuery: pick(p, `n{track="{track}"}`, `n{track="{track}"}`, ""), MinSamples: pick(p, nil, ptr(300.0)), Empty: pick(p, "", "zero"),
		PerShare: p.n(4) == 3, Analysis: often(p, "", "mann-whitney", "sequential"), Window: ofMinutes(often(p, 5, 0, 60.0)),
		Step: ofMinutes(1), Alpha: 0.05, MinPoints: pick(p, 1, 5), Direction: pick(p, "increase", "decrease", "either"),
		Weight: pick(p, 1, 2, 0.0), Critical: pick(p, nil, ptr(true), ptr(false)),
	}
}

func (p *picker) reading() (config.Health, Subject, Answers, []ProbeResult) {
	h := config.Health{Analysis: pick(p, nil, nil, &config.Analysis{Pass: 95, Marginal: 75})}
	answers := Answers{}
	for i := range p.n(3) + 1 {
		m := p.metric(fmt.Sprint("m", i))
		h.Metrics = append(h.Metrics, m)
		for _, id := range []string{"/candidate", "/stable", "/samples/candidate", "/samples/stable"} {
			if p.n(16) != 15 {
				answers[m.Name+id] = p.answer()
			}
		}
	}
	s := subject(p.n(2) == 1)
	s.Share, s.First = pick(p, 10, 10, 50, 99.9, 100, 0), p.n(8) == 7
	s.Candidate = often(p, state.SlotB, state.SlotA, "")
	var probes []ProbeResult
	if p.n(2) == 1 {
		h.Probes = []config.Probe{{Name: "home"}}
		probes = pick(p, nil, []ProbeResult{{Name: "home", Result: Pass}}, []ProbeResult{{Name: "home", Result: Fail}}, []ProbeResult{{Name: "home"}})
	}
	return h, s, answers, probes
}

// usable says, apart from the code under test, whether a passing metric may
// rest on this answer.
func usable(a metric.Answer, ok bool, emptyIsZero bool) bool {
	if !ok || a.Partial {
		return false
	}
	if emptyIsZero && (errors.Is(a.Err, metric.ErrNoData) || a.Err == nil && len(a.Points) == 0) {
		return true
	}
	inStage := a.From.IsZero() || !a.From.Before(noon())
	return a.Err == nil && inStage && len(a.Points) == 1 && finite(a.Points[0].Value) && !a.Points[0].At.Before(noon())
}

func checkReading(t *testing.T, data []byte) {
	h, s, answers, probes := (&picker{data}).reading()
	r := Judge(h, s, answers, probes)
	whole := true
	for i, got := range r.Metrics {
		tolerated := got.Result == SkippedHere || got.Result == Fail && h.Analysis != nil && !got.Critical
		if got.Result == Pass {
			checkPass(t, h.Metrics[i], answers)
		}
		whole = whole && (got.Result == Pass || tolerated)
	}
	for _, p := range r.Probes {
		whole = whole && p.Result == Pass
	}
	if r.Verdict == Green && !whole {
		t.Errorf("green: %+v", r)
	}
	stored, again, err := replay(r)
	if err != nil || string(stored) != string(again) {
		t.Errorf("replay: %v\nstored %s\nagain  %s", err, stored, again)
	}
}

// checkPass holds a metric that passed against what came back for it.
func checkPass(t *testing.T, m config.Metric, answers Answers) {
	if m.Analysis != "" {
		checkSeries(t, m, answers)
		return
	}
	counted, compared := m.SamplesQuery != "", m.Compare != ""
	asked := map[string]bool{"/candidate": true, "/stable": compared, "/samples/candidate": counted, "/samples/stable": counted && compared}
	for id, given := range asked {
		a, ok := answers[m.Name+id]
		zero := m.Empty == "zero" && counted && !strings.Contains(id, "samples")
		if given && !usable(a, ok, zero) {
			t.Errorf("%s passed on %s = %+v", m.Name, id, a)
		}
	}
	if m.MinSamples != nil && counted && answers[m.Name+"/samples/candidate"].Points[0].Value < *m.MinSamples {
		t.Errorf("%s passed on too few requests", m.Name)
	}
}

// checkSeries holds a metric that passed its analysis against its answers: each
// is whole, and has a point in the stage that is a number.
func checkSeries(t *testing.T, m config.Metric, answers Answers) {
	for _, id := range []string{"/candidate", "/stable"} {
		a, ok := answers[m.Name+id]
		zero := m.Empty == "zero" && m.SamplesQuery != "" && (errors.Is(a.Err, metric.ErrNoData) || a.Err == nil && len(a.Points) == 0)
		number := slices.ContainsFunc(a.Points, func(p metric.Point) bool { return finite(p.Value) && !p.At.Before(noon()) })
		if !ok || a.Partial || m.Compare == "" || !zero && (a.Err != nil || !number) {
			t.Errorf("%s passed %s on %s = %+v", m.Name, m.Analysis, id, a)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a healthy release and a broken one"))
	f.Fuzz(checkReading)
}

// A stored reading comes from outside: whatever it holds, judging it neither
// panics nor depends on how often it is done.
func FuzzReplay(f *testing.F) {
	for _, s := range situations()[:12] {
		data, err := json.Marshal(s.judge(true))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Record
		if json.Unmarshal(data, &r) != nil {
			return
		}
		once := Replay(r)
		if diff := cmp.Diff(once, Replay(once), cmpopts.EquateNaNs()); diff != "" {
			t.Error(diff)
		}
	})
}

// The same over a fixed set of inputs, in every run of the tests.
func TestNothingElseIsEverAPass(t *testing.T) {
	verdicts := map[Verdict]int{}
	for seed := range 2000 / fewer {
		data := noise(seed)
		checkReading(t, data)
		h, s, answers, probes := (&picker{data}).reading()
		verdicts[Judge(h, s, answers, probes).Verdict]++
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(verdicts)
	for _, v := range []Verdict{Green, Red, Thin, Error, Ungated} {
		if verdicts[v] < 10/fewer {
			t.Errorf("%d readings were %s: the inputs do not reach it", verdicts[v], v)
		}
	}
}

func noise(seed int) []byte {
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	data := make([]byte, 200)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}
