//go:build peers

package analysis

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
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

// scipyScript times mannwhitneyu on the samples of each file: the best of nine
// batches of calls, without start-up and reading.
const scipyScript = `
import json, sys, time
import numpy, scipy
from scipy.stats import mannwhitneyu

def best(call):
    call()
    begin = time.perf_counter()
    call()
    times = max(1, int(0.05 / max(time.perf_counter() - begin, 1e-9)))
    batches = []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(times):
            call()
        batches.append((time.perf_counter() - begin) / times)
    return min(batches)

out = []
for path in sys.argv[1:]:
    both = numpy.fromfile(path, dtype="<f8")
    candidate, stable = both[:len(both) // 2].copy(), both[len(both) // 2:].copy()
    call = lambda: mannwhitneyu(candidate, stable, method="asymptotic")
    result = call()
    out.append({"u": float(result.statistic), "p": float(result.pvalue), "seconds": best(call), "version": scipy.__version__})
print(json.dumps(out))
`

type scipyResult struct {
	U, P, Seconds float64
	Version       string
}

// BenchmarkSciPy compares with SciPy's mannwhitneyu(method="asymptotic") on the
// same points in one run, and prints a table. It fails when SciPy has another
// result; how fast either is depends on the machine and fails nothing.
func BenchmarkSciPy(b *testing.B) {
	python := os.Getenv(scipyPython)
	if python == "" {
		b.Fatalf("%s is not set, expected a Python with SciPy; make bench makes one", scipyPython)
	}
	sizes := benchSizes()
	args := []string{"-c", scipyScript}
	for _, n := range sizes {
		candidate, stable := benchPoints(n)
		path := filepath.Join(b.TempDir(), fmt.Sprint(n))
		if err := os.WriteFile(path, littleEndian(append(candidate, stable...)), 0o600); err != nil {
			b.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.CommandContext(b.Context(), python, args...).Output()
	if err != nil {
		b.Fatalf("%s: %v (is SciPy installed there?)", python, err)
	}
	var theirs []scipyResult
	if err := json.Unmarshal(out, &theirs); err != nil || len(theirs) != len(sizes) {
		b.Fatalf("SciPy says %q, expected %d results: %v", out, len(sizes), err)
	}
	fmt.Fprintf(os.Stdout, "\nMann-Whitney beside SciPy %s, µs a call\n", theirs[0].Version)
	fmt.Fprintf(os.Stdout, "%8s %10s %12s %10s %8s %10s %7s\n", "points", "manent", "with shift", "SciPy", "faster", "sort", "÷ sort")
	for i, n := range sizes {
		besideSciPy(b, n, theirs[i])
	}
}

func besideSciPy(b *testing.B, n int, theirs scipyResult) {
	candidate, stable := benchPoints(n)
	c := MannWhitney(candidate, stable, Normal, 0)
	if c.U != theirs.U || math.Abs(c.P-theirs.P) > 1e-9*theirs.P {
		b.Errorf("%d points: u %g and p %.17g, SciPy has %g and %.17g", n, c.U, c.P, theirs.U, theirs.P)
	}
	joined := make([]float64, 0, 2*n)
	ours := best(func() { MannWhitney(candidate, stable, Normal, 0) })
	shift := best(func() { MannWhitney(candidate, stable, Normal, 0.95) })
	sort := best(func() {
		joined = append(append(joined[:0], candidate...), stable...)
		slices.Sort(joined)
	})
	fmt.Fprintf(os.Stdout, "%8d %10.1f %12.1f %10.1f %7.1f× %10.1f %7.2f\n",
		n, ours*1e6, shift*1e6, theirs.Seconds*1e6, theirs.Seconds/ours, sort*1e6, ours/sort)
}

// best is the seconds a call takes, in the best of nine batches.
func best(call func()) float64 {
	call()
	begin := time.Now()
	call()
	times := max(1, int(0.05/max(time.Since(begin).Seconds(), 1e-9)))
	least := math.Inf(1)
	for range 9 {
		begin = time.Now()
		for range times {
			call()
		}
		least = min(least, time.Since(begin).Seconds()/float64(times))
	}
	return least
}

func littleEndian(points []float64) []byte {
	var out []byte
	for _, v := range points {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
	}
	return out
}
