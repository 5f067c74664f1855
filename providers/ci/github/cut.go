package github

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// cut keeps the beginning of a text, in characters as the runner counts them:
// those outside the basic plane are two.
func cut(text string, most int) string {
	n, end := 0, 0 // end is where the text with the mark of a cut still fits
	for at, r := range text {
		if n < most {
			end = at
		}
		if n += max(utf16.RuneLen(r), 1); n > most {
			return text[:end] + "…"
		}
	}
	return text
}

// cutLines keeps the first whole lines of a text that has more than room
// bytes, with a notice of what is missing. It fails when not even that fits.
func cutLines(text string, room int) (string, bool) {
	if len(text) <= room {
		return text, true
	}
	notice := fmt.Sprintf("\n*Cut here: GitHub shows at most %d KiB of a step.*\n", maxSummary>>10)
	if room -= len(notice); room < 0 {
		return "", false
	}
	return text[:strings.LastIndexByte(text[:room], '\n')+1] + notice, true
}
