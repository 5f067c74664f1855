package cli

import (
	"regexp"
	"strings"
)

// commandLine is the beginning of a line that GitHub's runner takes for a
// command: it reads both streams, ends a line at \r too, and passes over all
// blanks in front of the colons, so that none of them is an escape.
var commandLine = regexp.MustCompile(`((?:^|[\r\n])[\pZ\pC]*):(:)`)

// harmless takes from a text what a pipeline's runner would take for a command
// to itself: lines come from metric systems, from users and from their
// scripts, and one of them could turn off the hiding of secrets. The older
// form of a command, ##[, counts anywhere in a line.
func harmless(text string) string {
	if !strings.Contains(text, "::") && !strings.Contains(text, "##[") {
		return text
	}
	text = strings.ReplaceAll(text, "##[", "# #[")
	return commandLine.ReplaceAllString(text, "$1: $2")
}

// harmlessJSON is harmless for a document, which stays the same to whoever
// reads it. No line of one begins with a colon.
func harmlessJSON(data []byte) string {
	return strings.ReplaceAll(string(data), "##[", `##\u005b`)
}
