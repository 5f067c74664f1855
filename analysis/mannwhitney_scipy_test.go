//go:build peers

package analysis

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// scipyPython names the Python that has SciPy; `make bench` makes one.
const scipyPython = "MANENT_SCIPY_PYTHON"

// scipyScript reads names of files with both samples, one a line, and says how
// long mannwhitneyu takes on each: the best of three batches of calls.
const scipyScript = `
import json, sys, time
import numpy, scipy
from scipy.stats import mannwhitneyu

def best(call):
    begin = time.perf_counter()
    call()
    times = max(1, int(0.05 / max(time.perf_counter() - begin, 1e-9)))
    batches = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(times):
            call()
        batches.append((time.perf_counter() - begin) / times)
    return min(batches)

for line in sys.stdin:
    both = numpy.fromfile(line.strip(), dtype="<f8")
    candidate, stable = both[:len(both) // 2].copy(), both[len(both) // 2:].copy()
    call = lambda: mannwhitneyu(candidate, stable, method="asymptotic")
    result = call()
    print(json.dumps({"u": float(result.statistic), "p": float(result.pvalue), "seconds": best(call), "version": scipy.__version__}), flush=True)
`

type scipyResult struct {
	U, P, Seconds float64
	Version       string
}

// scipy is the Python process.
type scipy struct {
	in  io.Writer
	out *json.Decoder
}

func startSciPy(b *testing.B) scipy {
	python := os.Getenv(scipyPython)
	if python == "" {
		b.Fatalf("%s is not set, expected a Python with SciPy; make bench makes one", scipyPython)
	}
	cmd := exec.CommandContext(b.Context(), python, "-c", scipyScript)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatalf("%s=%s: %v", scipyPython, python, err)
	}
	b.Cleanup(func() {
		_ = in.Close() // ends the process
		_ = cmd.Wait()
	})
	return scipy{in, json.NewDecoder(out)}
}

func (s scipy) test(b *testing.B, path string) scipyResult {
	var r scipyResult
	if _, err := fmt.Fprintln(s.in, path); err != nil {
		b.Fatalf("ask SciPy: %v", err)
	}
	if err := s.out.Decode(&r); err != nil {
		b.Fatalf("SciPy does not answer (is it installed there?): %v", err)
	}
	return r
}

// BenchmarkSciPy compares with SciPy's mannwhitneyu(method="asymptotic") on the
// same points, in turns, and prints a table. It fails when SciPy has another
// result; how fast either is depends on the machine and fails nothing.
func BenchmarkSciPy(b *testing.B) {
	s := startSciPy(b)
	for i, n := range benchSizes() {
		candidate, stable := benchPoints(n)
		path := filepath.Join(b.TempDir(), fmt.Sprint(n))
		if err := os.WriteFile(path, littleEndian(candidate, stable), 0o600); err != nil {
			b.Fatal(err)
		}
		theirs := s.test(b, path)
		if i == 0 {
			_, _ = fmt.Fprintf(os.Stdout, "\nMann-Whitney beside SciPy %s, µs a call\n", theirs.Version)
			_, _ = fmt.Fprintf(os.Stdout, "%8s %10s %12s %10s %8s %10s %7s\n", "points", "manent", "with shift", "SciPy", "faster", "sort", "÷ sort")
		}
		c := MannWhitney(candidate, stable, Normal, 0)
		if c.U != theirs.U || math.Abs(c.P-theirs.P) > 1e-9*theirs.P {
			b.Errorf("%d points: u %g and p %.17g, SciPy has %g and %.17g", n, c.U, c.P, theirs.U, theirs.P)
		}
		besideSciPy(candidate, stable, func() float64 { return s.test(b, path).Seconds })
	}
}

// besideSciPy takes turns, so that whatever else the machine does hits all.
func besideSciPy(candidate, stable []float64, theirs func() float64) {
	joined := make([]float64, 0, 2*len(stable))
	ours, shift, sort, scipy := math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
	for range 5 {
		scipy = min(scipy, theirs())
		ours = min(ours, best(func() { MannWhitney(candidate, stable, Normal, 0) }))
		shift = min(shift, best(func() { MannWhitney(candidate, stable, Normal, 0.95) }))
		sort = min(sort, best(func() {
			joined = append(append(joined[:0], candidate...), stable...)
			slices.Sort(joined)
		}))
	}
	_, _ = fmt.Fprintf(os.Stdout, "%8d %10.1f %12.1f %10.1f %7.1f× %10.1f %7.2f\n",
		len(stable), ours*1e6, shift*1e6, scipy*1e6, scipy/ours, sort*1e6, ours/sort)
}

// best is the seconds a call takes, in the best of three batches.
func best(call func()) float64 {
	begin := time.Now()
	call()
	times := max(1, int(0.05/max(time.Since(begin).Seconds(), 1e-9)))
	least := math.Inf(1)
	for range 3 {
		begin = time.Now()
		for range times {
			call()
		}
		least = min(least, time.Since(begin).Seconds()/float64(times))
	}
	return least
}

func littleEndian(candidate, stable []float64) []byte {
	var out []byte
	for _, v := range slices.Concat(candidate, stable) {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}
