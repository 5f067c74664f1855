package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span, written 90s, 5m, 1h30m, 30d, or 0.
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes whole days as 30d, the rest as Go does without zero tails.
func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t == 0:
		return "0s"
	case t%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", t/(24*time.Hour))
	}
	s := t.String()
	s = strings.Replace(s, "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = parsed
	return err
}

// longestDuration bounds a duration, so that sums of some never overflow.
const longestDuration = 3650 * 24 * time.Hour

// ParseDuration reads a duration. It refuses negative ones and those of more
// than 3650 days.
func ParseDuration(text string) (Duration, error) {
	whole, rest := time.Duration(0), text
	if days, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 3650 {
			return 0, notDuration(text)
		}
		whole, rest = time.Duration(n)*24*time.Hour, after
		if rest == "" {
			return Duration(whole), nil
		}
	}
	t, err := time.ParseDuration(rest)
	if err != nil || t < 0 || t > longestDuration-whole {
		return 0, notDuration(text)
	}
	return Duration(whole + t), nil
}

func notDuration(text string) error {
	return fmt.Errorf("%s, expected a duration such as 30s, 5m, 1h30m or 30d", show(text))
}

// Percent is a percentage as a fraction, written 1% or 0.5%.
type Percent float64

// String writes the percentage.
func (p Percent) String() string {
	return strconv.FormatFloat(float64(p)*100, 'g', 12, 64) + "%"
}

// MarshalText implements encoding.TextMarshaler.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v > 0 && v < 100) { // NaN is neither
		return fmt.Errorf("%s, expected a percentage above 0%% and below 100%%, such as 1%%", show(string(text)))
	}
	// as many digits as String writes, so that both are inverse
	v, err = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	*p = Percent(v / 100)
	return err
}
