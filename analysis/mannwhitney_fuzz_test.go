package analysis

import (
	"encoding/binary"
	"math"
	"testing"
)

// fuzzPoints reads numbers of any bits, NaN and infinities too.
func fuzzPoints(raw []byte) []float64 {
	var out []float64
	for ; len(raw) >= 8 && len(out) < 40; raw = raw[8:] {
		out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
	}
	return out
}

func fuzzBytes(points ...float64) []byte {
	var out []byte
	for _, v := range points {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}

func FuzzMannWhitney(f *testing.F) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, seed := range [][2][]float64{
		{nil, nil}, {{1}, {1}}, {{1}, nil}, {{nan}, {nan, 2}}, {{inf, -inf, 1}, {inf, 2}}, {{inf}, {-inf}},
		{{0, 0, 0}, {0, 0, 0}}, {{0, 0, 5}, {0, math.Copysign(0, -1)}}, {{1, 2, 3, 4}, {5, 6, 7, 8}},
		{{math.MaxFloat64, -math.MaxFloat64}, {-math.MaxFloat64, 5e-324}}, {{5e-324, 1e-310}, {0, -5e-324}},
	} {
		f.Add(fuzzBytes(seed[0]...), fuzzBytes(seed[1]...), true, 0.95)
	}
	f.Fuzz(func(t *testing.T, a, b []byte, exact bool, confidence float64) {
		candidate, stable := fuzzPoints(a), fuzzPoints(b)
		method := Normal
		if exact {
			method = Exact
		}
		c := MannWhitney(candidate, stable, method, confidence)
		back := MannWhitney(stable, candidate, method, confidence)
		pairs := float64(c.CandidatePoints * c.StablePoints)
		switch {
		case !(c.P > 0 && c.P <= 1), math.Abs(c.P-back.P) > 1e-12*c.P:
			t.Errorf("p is %g, other way round %g", c.P, back.P)
		case c.U+back.U != pairs, c.U < 0, !(c.Effect >= 0 && c.Effect <= 1):
			t.Errorf("u is %g, other way round %g, of %g; effect %g", c.U, back.U, pairs, c.Effect)
		case c.Shift.Low > c.Shift.Estimate, c.Shift.Estimate > c.Shift.High, math.IsNaN(c.Shift.Estimate):
			t.Errorf("shift %+v", c.Shift)
		case c.CandidatePoints > 0 && math.IsNaN(c.CandidateMean) && len(c.Warnings) == 0:
			t.Errorf("the mean is no number, and no warning says so")
		}
		fuzzCompare(t, candidate, stable, method)
	})
}

// fuzzCompare: no numbers make a rule fail that cannot be significant, or pass
// where nothing could have failed.
func fuzzCompare(t *testing.T, candidate, stable []float64, method Method) {
	t.Helper()
	for _, bound := range []*Bound{nil, {Alpha: 0.01, Planned: 12}} {
		for _, direction := range []Direction{Increase, Decrease, Either} {
			v := Compare(candidate, stable, Rule{Direction: direction, Alpha: 0.05, MinPoints: 4, Method: method, Bound: bound})
			few := min(v.CandidatePoints, v.StablePoints)
			switch {
			case v.Outcome == Fail && !(v.Judged < v.Level && v.Delta != 0):
				t.Errorf("%+v", v)
			case v.Outcome != Inconclusive && (few < 4 || !finite(v.CandidateMean) || !finite(v.StableMean)):
				t.Errorf("%+v", v)
			case v.Outcome == Pass && bound == nil && !(leastP(v.CandidatePoints, v.StablePoints, method) < 0.05):
				t.Errorf("%+v", v)
			case v.Outcome == "" || v.Cause == "":
				t.Errorf("%+v", v)
			}
		}
	}
}
