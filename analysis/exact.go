package analysis

// exactPairs is the largest number of pairs for which the exact distribution
// is computed: 100 points a side take about 0.1 s and 8 MB.
const exactPairs = 10_000

func withinExact(m, n int) bool { return m <= exactPairs && n <= exactPairs && m*n <= exactPairs }

// exactSpace is the number of elements that exactP needs.
func exactSpace(m, n int) int {
	d := distribution{m: min(m, n), n: max(m, n)}
	return d.start(d.m + 1)
}

// exactP is the two-sided p of U under its true distribution, given the values
// seen: all ways to choose which of the N points are the candidate's are
// equally likely, ties included (the conditional distribution of Streitberg &
// Röhmel 1986, counted group by group). Two-sided is
//
//	min(1, 2 · min(P(U ≤ u), P(U ≥ u)))
//
// as in R's wilcox.test. It is at least 2 ÷ C(N, m) and so never 0.
// Samples that are not withinExact need another method.
func exactP(x, y, free []float64, u float64) float64 {
	if len(x) > len(y) {
		u = float64(len(x))*float64(len(y)) - u
		x, y = y, x
	}
	d := newDistribution(x, y, free)
	below, above, all := 0.0, 0.0, 0.0
	for twice, ways := range d.row(d.m) {
		all += ways
		if float64(twice) <= 2*u {
			below += ways
		}
		if float64(twice) >= 2*u {
			above += ways
		}
	}
	return min(1, 2*min(below, above)/all)
}

// distribution counts, for each k and each value of 2U, the ways to choose k
// of the points looked at so far so that the chosen have that 2U against those
// not chosen. m ≤ n; fewer than C(200, 100) ways are well within a float64.
type distribution struct {
	m, n   int
	seen   int
	counts []float64
}

func newDistribution(x, y, free []float64) distribution {
	d := distribution{m: len(x), n: len(y)}
	d.counts = free[:d.start(d.m+1)]
	clear(d.counts)
	d.counts[0] = 1
	for len(x) > 0 || len(y) > 0 {
		v := head(x, y)
		a, b := run(x, v), run(y, v)
		d.add(a + b)
		x, y = x[a:], y[b:]
	}
	return d
}

// head is the smallest value of two sorted samples, not both of them empty.
func head(x, y []float64) float64 {
	switch {
	case len(x) == 0:
		return y[0]
	case len(y) == 0:
		return x[0]
	}
	return min(x[0], y[0])
}

// start is where row k begins: row i has 2·i·n + 1 elements.
func (d *distribution) start(k int) int { return k*(k-1)*d.n + k }

func (d *distribution) row(k int) []float64 { return d.counts[d.start(k):d.start(k+1)] }

// add looks at the next t points, which are equal and above those seen. A row
// depends on itself and on those below it, so it goes from the highest down.
func (d *distribution) add(t int) {
	for k := min(d.m, d.seen+t); k >= max(1, d.seen+t-d.n); k-- {
		ways := 1.0
		for j := 1; j <= min(t, k); j++ {
			ways = ways * float64(t-j+1) / float64(j)
			if k-j <= d.seen {
				d.choose(k-j, j, t, ways)
			}
		}
	}
	d.seen += t
}

// choose adds to row k + j the ways in which k were chosen before and j of the
// t equal points are chosen now. Each of these j is above the before+rest not
// chosen of the seen ones, and ties with the t − j.
func (d *distribution) choose(k, j, t int, ways float64) {
	rest := d.seen - k
	from := d.row(k)[:2*k*rest+1]
	to := d.row(k + j)[j*(2*rest+t-j):]
	for twice, count := range from {
		to[twice] += ways * count
	}
}

// leastP is the smallest p that m and n points can have when none are equal:
// that of complete separation.
func leastP(m, n int, method Method) float64 {
	if methodFor(method, m, n) == Exact {
		p := 2.0
		for k := 1; k <= min(m, n); k++ {
			p *= float64(k) / float64(max(m, n)+k)
		}
		return min(1, p)
	}
	return normalP(0, m, n, 0)
}
