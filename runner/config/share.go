package config

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

var shareForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.[0-9]*[1-9])?$`)

// ShareText writes a share as step names have it: 25, 2.5.
func ShareText(share float64) string { return strconv.FormatFloat(share, 'f', -1, 64) }

// ParseShare reads a share (0–100) in exactly the form of ShareText, so that
// a share has one name.
func ParseShare(text string) (float64, bool) {
	if !shareForm.MatchString(text) {
		return 0, false
	}
	share, err := strconv.ParseFloat(text, 64)
	return share, err == nil && share <= 100 && ShareText(share) == text
}

// Amount is a number of things or a percentage of them, as maxUnavailable and
// min_healthy have it.
type Amount struct {
	Count   int
	Percent float64 // used when above 0
}

// ParseAmount reads "2" or "66%". ok is false for anything else; zero and
// percentages above 100 are not ok.
func ParseAmount(text string) (Amount, bool) {
	if number, percent := strings.CutSuffix(text, "%"); percent {
		p, err := strconv.ParseFloat(number, 64)
		return Amount{Percent: p}, err == nil && p > 0 && p <= 100
	}
	n, err := strconv.Atoi(text)
	return Amount{Count: n}, err == nil && n > 0
}

// AtMost is the amount of total things, at least 1: a percentage is rounded
// down.
func (a Amount) AtMost(total int) int {
	if a.Percent > 0 {
		return max(1, int(math.Floor(float64(total)*a.Percent/100)))
	}
	return max(1, a.Count)
}

// AtLeast is the amount of total things, a percentage rounded up.
func (a Amount) AtLeast(total int) int {
	if a.Percent > 0 {
		return int(math.Ceil(float64(total) * a.Percent / 100))
	}
	return a.Count
}

// Reachable is the share nearest to the wanted one that a router with this
// step (percentage points, 0 = cannot be told) can give, and whether it is
// within tolerance. A share above 0 never becomes 0.
func Reachable(share, step, tolerance float64) (float64, bool) {
	if step <= 0 {
		return share, true
	}
	got := math.Round(math.Round(share/step)*step*1e6) / 1e6
	return got, math.Abs(got-share) <= tolerance+1e-9 && (got > 0 || share == 0)
}
