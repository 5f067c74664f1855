package report

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// marked writes a text into Markdown so that it shows as it is: on one line,
// with at most so many characters, and without a meaning to Markdown or HTML.
func marked(text string, most int) string { return escaped(cutRunes(plain(text), most)) }

// escaped makes < > & | entities and puts a backslash before the rest of what
// Markdown could take for something.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strings.ContainsRune("<>&|", r):
			fmt.Fprintf(&b, "&#%d;", r)
		case strings.ContainsRune("\\`*_[]~#$@!", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain is a text on one line without what does not show: control characters,
// those that turn the direction of writing, and what is not UTF-8.
func plain(text string) string {
	text = strings.ToValidUTF8(oneLine(text), "�")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, text)
}

func cutRunes(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// code shows a command or a name as code. In code nothing can be escaped, so
// that a text with characters that would end it is shown as text.
func code(text string, most int) string {
	if text == "" || strings.ContainsAny(text, "`<>|&\\") || plain(text) != text || len([]rune(text)) > most {
		return marked(text, most)
	}
	return "`" + text + "`"
}

// link is a link to an address of the web, and the text alone where the
// address is none, or has what Markdown could take for something else.
func link(text, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(address) > 500 {
		return text
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\\`\"'<>|()[]*", r) }) {
		return text
	}
	return "[" + text + "](" + strings.ReplaceAll(address, "&", "&#38;") + ")"
}

// row is a row of a Markdown table; its cells hold no raw bar.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }
