package gate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

func stageAt(readings ...float64) state.Stage {
	s := state.Stage{InForce: noon()}
	for _, r := range readings {
		s.Readings = append(s.Readings, state.Reading{At: minute(r), Verdict: string(Green)})
	}
	return s
}

func healthOf(interval, grace float64, failureLimit int) config.Health {
	return config.Health{Interval: ofMinutes(interval), Grace: ofMinutes(grace), FailureLimit: failureLimit}
}

func span2(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }

func TestFirstDue(t *testing.T) {
	tests := []struct {
		name                  string
		bake, delay, interval float64
		want                  float64
	}{
		{"an interval after the share", 10, 0, 1, 1},
		{"bake shorter than the interval", 0.5, 0, 1, 0.5},
		{"bake and delay shorter than the interval", 0.5, 0.2, 1, 0.7},
		{"delay does not hold up the first", 10, 3, 1, 1},
		{"no bake", 0, 0, 1, 0},
		{"no bake, delayed data", 0, 5, 1, 5},
		{"no interval", 10, 0, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Clock{InForce: noon(), Bake: span2(tt.bake), Delay: span2(tt.delay)}
			if got := FirstDue(healthOf(tt.interval, 2, 0), c); !got.Equal(minute(tt.want)) {
				t.Errorf("%s, want %s", got, minute(tt.want))
			}
		})
	}
}

// Readings are on a grid from the share on, whenever the last one was, and
// one falls on the end of the bake and of maxBake.
func TestNextDueIsOnTheGrid(t *testing.T) {
	c := Clock{InForce: noon(), Bake: span2(2.5), MaxBake: span2(4.2), Delay: span2(0.25)}
	for last, want := range map[float64]float64{0.5: 1, 1: 2, 1.1: 2, 2: 2.75, 2.75: 3, 3.9: 4, 4: 4.45, 4.45: 5} {
		c.LastRead = minute(last)
		if got := NextDue(healthOf(1, 2, 0), c, stageAt()); !got.Equal(minute(want)) {
			t.Errorf("after minute %v: %s, want %s", last, got, minute(want))
		}
	}
}

func TestWithoutABake(t *testing.T) {
	tests := []struct {
		name    string
		verdict Verdict
		now     float64
		grace   float64
		maxBake float64
		want    Act
		next    float64
	}{
		{"green", Green, 0, 2, 0, Finish, 0},
		{"green, late", Green, 500, 2, 0, Finish, 0},
		{"ungated", Ungated, 0, 2, 0, Finish, 0},
		{"red", Red, 0, 2, 0, Refuse, 0},
		{"thin", Thin, 0, 2, 0, Refuse, 0},
		{"thin, with a maxBake", Thin, 0, 2, 5, GoOn, 1},
		{"error", Error, 0, 2, 0, GoOn, 1},
		{"error, no grace", Error, 0, 0, 0, Refuse, 0},
		{"void", Void, 0, 2, 0, GoOn, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Clock{InForce: noon(), Now: minute(tt.now), MaxBake: span2(tt.maxBake)}
			o := Decide(healthOf(1, tt.grace, 0), c, stageAt(), Record{Verdict: tt.verdict})
			if o.Act != tt.want || (o.Act == GoOn && !o.Next.Equal(minute(tt.next))) {
				t.Errorf("%s, next %s", o.Act, o.Next)
			}
		})
	}
}

func TestStatusOfTheStage(t *testing.T) {
	c := Clock{InForce: noon(), Now: noon()}
	for verdict, want := range map[Verdict]string{Green: state.StagePassed, Ungated: state.StageUngated, Red: state.StageFailed, Error: state.StageBaking} {
		if o := Decide(healthOf(1, 2, 0), c, stageAt(), Record{Verdict: verdict}); o.Status != want {
			t.Errorf("%s: %s, want %s", verdict, o.Status, want)
		}
	}
}

// Red readings add up over the gate; a run of errors ends with any reading
// that is none, and drift changes nothing.
func TestCounters(t *testing.T) {
	stage := stageAt()
	now := 0.0
	steps := []struct {
		verdict Verdict
		red     int
		first   float64 // minute of FirstError, -1 for none
	}{
		{Red, 1, -1}, {Green, 1, -1}, {Error, 1, 3}, {Error, 1, 3}, {Void, 1, 3}, {Error, 1, 3}, {Thin, 1, -1},
		{Error, 1, 8}, {Green, 1, -1}, {Error, 1, 10}, {Red, 2, -1}, {Error, 2, 12}, {Ungated, 2, -1},
	}
	for i, s := range steps {
		now++
		o := Decide(healthOf(1, 2, 2), Clock{InForce: noon(), Now: minute(now), Bake: time.Hour}, stage, Record{Verdict: s.verdict})
		stage.Red, stage.FirstError = o.Red, o.FirstError
		first := time.Time{}
		if s.first >= 0 {
			first = minute(s.first)
		}
		if o.Act != GoOn || o.Red != s.red || !o.FirstError.Equal(first) {
			t.Fatalf("step %d, %s: %s, red %d, first error %s", i, s.verdict, o.Act, o.Red, o.FirstError)
		}
	}
	if o := Decide(healthOf(1, 2, 2), Clock{InForce: noon(), Now: minute(20), Bake: time.Hour}, stage, Record{Verdict: Red}); o.Act != Refuse {
		t.Errorf("third red of two tolerated: %s", o.Act)
	}
}

// An outage of the metric system in the middle of a bake returns nobody.
func TestOutageDuringTheBake(t *testing.T) {
	stage := stageAt()
	h := healthOf(1, 2, 0)
	for now := 1.0; now < 10; now++ {
		o := Decide(h, Clock{InForce: noon(), Now: minute(now), LastRead: minute(now - 1), Bake: span2(10)}, stage, Record{Verdict: Error})
		if o.Act != GoOn {
			t.Fatalf("minute %v: %s", now, o.Act)
		}
		stage.FirstError = o.FirstError
	}
	if o := Decide(h, Clock{InForce: noon(), Now: minute(10), LastRead: minute(9), Bake: span2(10)}, stage, Record{Verdict: Green}); o.Act != Finish {
		t.Errorf("when it is back: %s", o.Act)
	}
}

// Two intervals without a reading are no gap, a little more is one.
func TestGap(t *testing.T) {
	tests := []struct {
		name string
		last float64
		read []float64 // minutes of the readings before
		now  float64
		want Act
	}{
		{"two intervals", 10, nil, 12, Finish},
		{"more than two intervals", 10, []float64{9}, 12.1, GoOn},
		{"the last one ended a gap", 12.1, []float64{9}, 13.1, Finish},
		{"the last one ended a gap, and this comes late", 12.1, []float64{9}, 60, Finish},
		{"the last one was not quite after a gap, and this comes late", 12, []float64{10}, 60, GoOn},
		{"nobody read before, two intervals", 0, nil, 2, Finish},
		{"nobody read before, more", 0, nil, 2.1, GoOn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Clock{InForce: noon(), Now: minute(tt.now), Bake: span2(1)}
			if tt.last > 0 {
				c.LastRead = minute(tt.last)
			}
			if o := Decide(healthOf(1, 2, 0), c, stageAt(tt.read...), Record{Verdict: Green}); o.Act != tt.want {
				t.Errorf("%s: %s", o.Act, o.Reason)
			}
		})
	}
}

// A reading before the data of a stage without a bake are old enough is
// followed by the one that counts.
func TestTooSoonWithoutABake(t *testing.T) {
	c := Clock{InForce: noon(), Now: minute(1), Delay: span2(5)}
	for _, v := range []Verdict{Green, Thin, Error, Void} {
		if o := Decide(healthOf(1, 0, 0), c, stageAt(), Record{Verdict: v}); o.Act != GoOn || !o.Next.Equal(minute(5)) {
			t.Errorf("%s: %s, next %s", v, o.Act, o.Next)
		}
	}
}

// A driver that calls every five minutes has to get through a gate of one
// minute, and may not finish it with its first look after a gap.
func TestSlowDriver(t *testing.T) {
	h := healthOf(1, 2, 0)
	stage := stageAt()
	var acts []string
	for now := 5.0; now <= 30; now += 5 {
		c := Clock{InForce: noon(), Now: minute(now), Bake: span2(10), LastRead: LastRead(stage)}
		if due := NextDue(h, c, stage); c.Now.Before(due) {
			t.Fatalf("minute %v: due at %s only", now, due)
		}
		o := Decide(h, c, stage, Record{Verdict: Green})
		acts = append(acts, string(o.Act))
		if o.Act == Finish {
			break
		}
		stage.Readings = append(stage.Readings, state.Reading{At: c.Now, Verdict: string(Green)})
	}
	if got := strings.Join(acts, " "); got != "go-on go-on finish" {
		t.Error(got)
	}
}

func TestApprovals(t *testing.T) {
	h := healthOf(1, 2, 0)
	stage := Clock{InForce: noon(), Bake: span2(10), MaxBake: span2(15), Delay: span2(1), LastRead: minute(100)}
	t.Run("while it is open only red counts", func(t *testing.T) {
		c := stage.Waiting(minute(600))
		c.Now = minute(300)
		for verdict, want := range map[Verdict]Act{Green: GoOn, Thin: GoOn, Error: GoOn, Red: Refuse} {
			if o := Decide(h, c, stageAt(), Record{Verdict: verdict}); o.Act != want {
				t.Errorf("%s: %s", verdict, o.Act)
			}
		}
	})
	given := minute(300)
	tests := []struct {
		name    string
		verdict Verdict
		now     float64
		last    float64
		want    Act
	}{
		{"fresh and green", Green, 300, 100, Finish},
		{"fresh and red", Red, 300, 100, Refuse},
		{"thin", Thin, 300, 100, GoOn},
		{"thin for as long as maxBake", Thin, 315, 314, Refuse},
		{"in error", Error, 300, 100, GoOn},
		{"in error after grace", Error, 302, 301, Refuse},
		{"green after thin", Green, 301, 300, Finish},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := stage
			c.Now, c.LastRead = minute(tt.now), minute(tt.last)
			s := stageAt()
			if tt.verdict == Error && tt.now > 300 {
				s.FirstError = given
			}
			if o := Decide(h, c.Approved(given), s, Record{Verdict: tt.verdict}); o.Act != tt.want {
				t.Errorf("%s: %s", o.Act, o.Reason)
			}
		})
	}
	if got := (Clock{Bake: time.Hour}).Approved(given).Deadline(); !got.Equal(given.Add(time.Hour)) {
		t.Errorf("patient until %s without a maxBake", got)
	}
	for verdict, want := range map[Verdict]bool{Green: true, Ungated: true, Thin: false, Error: false, Red: false, Void: false, "": false} {
		if Opens(Record{Verdict: verdict}) != want {
			t.Errorf("%q opens: %t", verdict, !want)
		}
	}
}

func TestLastRead(t *testing.T) {
	s := stageAt(-5, 1, 2)
	s.Readings = append(s.Readings, state.Reading{At: minute(3), Verdict: string(Void)})
	if got := LastRead(s); !got.Equal(minute(2)) {
		t.Errorf("%s", got)
	}
	if got := LastRead(stageAt(-5)); !got.IsZero() {
		t.Errorf("before the share was in force: %s", got)
	}
}

// Whatever comes back, a stage that is read when it is due ends within
// Longest, ends green only after its bake, and never without a green reading.
func TestEveryStageEnds(t *testing.T) {
	verdicts := []Verdict{Green, Red, Thin, Error, Void, Ungated}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := healthOf(float64(1+r.IntN(4))/2, float64(r.IntN(5)), r.IntN(3))
		c := Clock{InForce: noon(), Bake: span2(float64(r.IntN(8)) / 2), MaxBake: span2(float64(r.IntN(12)) / 2), Delay: span2(float64(r.IntN(3)))}
		weights := [6]int{r.IntN(4), r.IntN(3), r.IntN(9), r.IntN(9), 0, r.IntN(2)}
		if err := drive(h, c, func() Verdict {
			n := r.IntN(weights[0] + weights[1] + weights[2] + weights[3] + weights[5] + 1)
			for i, w := range weights {
				if n < w {
					return verdicts[i]
				}
				n -= w
			}
			return Thin
		}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// drive reads a stage whenever it is due until it ends.
func drive(h config.Health, c Clock, next func() Verdict) error {
	stage := stageAt()
	longest := c.InForce.Add(Longest(h, c))
	for c.Now = FirstDue(h, c); ; {
		if c.Now.After(longest) {
			return fmt.Errorf("still not done at %s, longest %s", c.Now, longest)
		}
		verdict := next()
		o := Decide(h, c, stage, Record{Verdict: verdict})
		switch {
		case o.Act == Finish && (c.Now.Before(c.End()) || verdict != Green && verdict != Ungated):
			return fmt.Errorf("finished by %s at %s", verdict, c.Now)
		case o.Act == Refuse && (verdict == Green || verdict == Void || verdict == Ungated):
			return fmt.Errorf("failed by %s", verdict)
		case o.Act != GoOn:
			return nil
		case !o.Next.After(c.Now):
			return fmt.Errorf("next reading at %s, now %s", o.Next, c.Now)
		}
		stage.Red, stage.FirstError = o.Red, o.FirstError
		stage.Readings = append(stage.Readings, state.Reading{At: c.Now, Verdict: string(verdict)})
		c.LastRead = LastRead(stage)
		if due := NextDue(h, c, stage); verdict != Void && !due.Equal(o.Next) {
			return fmt.Errorf("NextDue says %s, the outcome %s", due, o.Next)
		}
		c.Now = o.Next
	}
}
