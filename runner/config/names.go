package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	nameForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)
	keyForm     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$`)
	placeholder = regexp.MustCompile(`\{([A-Za-z][A-Za-z0-9_.-]*)\}`)
)

// CommandName says what is wrong with the name of a user's step, nil for
// nothing. A name becomes part of step names, so it has none of their signs
// and is none of manent's own.
func CommandName(name string) error {
	reserved := []string{
		"config", "secrets", "deploy", "traffic", "gate", "approval",
		"drain", "drain-wait", "restore", "restore-wait", "complete", "returned",
	}
	switch {
	case !nameForm.MatchString(name):
		return fmt.Errorf("%s is not a name, expected a letter, then letters, digits, dashes and underscores, at most 63", show(name))
	case slices.Contains(reserved, name):
		return fmt.Errorf("%q is the name of a step of manent's own", name)
	}
	return nil
}

// keyName says what is wrong with a project's, application's or environment's
// name: all three become parts of a Git ref and an S3 key.
func keyName(name string) error {
	if !keyForm.MatchString(name) || strings.Contains(name, "..") || strings.HasSuffix(name, ".lock") {
		return fmt.Errorf("%s is not a name, expected letters, digits, dots, dashes and underscores, at most 100, no dot at an end", show(name))
	}
	return nil
}

// show quotes what was found in a file, cut where it is long.
func show(text string) string {
	short := cut(text)
	if short == text {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q…", strings.TrimSuffix(short, "…"))
}

func cut(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// Nearest returns the candidate that word was most likely meant to be, "" when
// none is near.
func Nearest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	if len(word) > 64 {
		return ""
	}
	for _, c := range candidates {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	return best
}

// distance counts the letters to insert, drop, replace or swap with their
// neighbour.
func distance(a, b string) int {
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(b)]
}
