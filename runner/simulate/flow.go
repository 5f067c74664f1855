package simulate

import (
	"math"
	"math/rand/v2"
	"sort"
)

// tally is what a side has seen since the rollout began.
type tally struct {
	at    int64 // milliseconds since the epoch
	all   int
	bad   int
	score float64 // sum of one standard normal score per request, which durations follow
}

func (t tally) since(before tally) tally {
	return tally{t.at, t.all - before.all, t.bad - before.bad, t.score - before.score}
}

// flow is the requests of one side: a Poisson process whose rate changes with
// the share, of which each request fails with the chance of its minute. It is
// drawn as far as somebody looks; between two known times the requests are
// split afterwards, which for such a process is the same.
type flow struct {
	rng   *rand.Rand
	known []tally // rising
	perMs float64 // requests a millisecond from the last known time on

	clean, faulty float64 // error rates outside and inside the minutes with a fault
	minutes       float64 // part of the minutes that have one
	fault         bool    // the present minute has one
	timed         bool    // scores are wanted
}

const minuteMs = 60_000

func newFlow(rng *rand.Rand, at int64) *flow {
	return &flow{rng: rng, known: []tally{{at: at}}}
}

func (f *flow) last() tally { return f.known[len(f.known)-1] }

// change sets the rate in requests a second, and the error rates, from a time
// on that is not before any that was looked at.
func (f *flow) change(at int64, rate, clean, faulty, minutes float64) {
	f.until(at)
	f.perMs, f.clean, f.faulty = rate/1000, clean, faulty
	if minutes != f.minutes { // else the present minute goes on as it began
		f.minutes = minutes
		f.fault = f.begins()
	}
}

func (f *flow) begins() bool {
	return f.minutes >= 1 || f.minutes > 0 && f.rng.Float64() < f.minutes
}

// until draws the requests up to a time, minute by minute where minutes differ.
func (f *flow) until(at int64) {
	for f.last().at < at {
		end := at
		if f.minutes > 0 && f.minutes < 1 {
			end = min(at, (f.last().at/minuteMs+1)*minuteMs)
		}
		f.draw(end)
		if end%minuteMs == 0 {
			f.fault = f.begins()
		}
	}
}

func (f *flow) draw(end int64) {
	from, p := f.last(), f.clean
	if f.fault {
		p = f.faulty
	}
	mean := f.perMs * float64(end-from.at)
	bad := poisson(f.rng, mean*p)
	all := bad + poisson(f.rng, mean*(1-p))
	to := tally{end, from.all + all, from.bad + bad, from.score}
	if f.timed && all > 0 {
		to.score += f.rng.NormFloat64() * math.Sqrt(float64(all))
	}
	f.known = append(f.known, to)
}

// at is the tally at a time; before the rollout there is nothing.
func (f *flow) at(at int64) tally {
	f.until(at)
	i := sort.Search(len(f.known), func(i int) bool { return f.known[i].at >= at })
	switch {
	case i == 0:
		return tally{at: at}
	case f.known[i].at == at:
		return f.known[i]
	}
	t := f.split(f.known[i-1], f.known[i], at)
	f.known = append(f.known, tally{})
	copy(f.known[i+1:], f.known[i:])
	f.known[i] = t
	return t
}

// split draws the tally at a time between two known ones: each request fell
// before it with the chance of the time's part, and the scores are a Brownian
// bridge over the requests.
func (f *flow) split(from, to tally, at int64) tally {
	d, part := to.since(from), float64(at-from.at)/float64(to.at-from.at)
	bad := binomial(f.rng, d.bad, part)
	all := bad + binomial(f.rng, d.all-d.bad, part)
	t := tally{at, from.all + all, from.bad + bad, from.score}
	if f.timed && d.all > 0 {
		share := float64(all) / float64(d.all)
		t.score += d.score*share + f.rng.NormFloat64()*math.Sqrt(float64(d.all)*share*(1-share))
	}
	return t
}
