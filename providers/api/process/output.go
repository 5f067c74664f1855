package process

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/manent/action/providers"
)

// Limits of what is kept of a command's output.
const (
	TailLines = 20      // lines kept for the report of a failure
	MaxLine   = 4 << 10 // bytes of a line; the rest of it is dropped
	rawLine   = 64 << 10
)

// cut marks a line that was longer than MaxLine.
const cut = " …"

// output splits what a command prints into lines. It is written to by one
// goroutine at a time.
type output struct {
	show    func(string)
	secrets *providers.Redactor
	line    []byte // the unfinished line, at most rawLine bytes
	tail    []string
}

func newOutput(show func(string), secrets *providers.Redactor) *output {
	if show == nil {
		show = func(string) {}
	}
	if secrets == nil {
		secrets = &providers.Redactor{}
	}
	return &output{show: show, secrets: secrets}
}

// Write never fails: a command must not die of what it prints.
func (o *output) Write(p []byte) (int, error) {
	rest := p
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		o.line = append(o.line, line[:min(len(line), rawLine-len(o.line))]...)
		if !found {
			return len(p), nil
		}
		o.emit()
		rest = after
	}
}

// flush emits a last line that had no end.
func (o *output) flush() {
	if len(o.line) > 0 {
		o.emit()
	}
}

// emit redacts before it cuts, so that no half of a secret is left at the end
// of a long line; that is why more of a line is kept than is shown. It redacts
// again what is left without control characters, since these may have stood
// inside a secret; such a line is shown without them.
func (o *output) emit() {
	text := o.secrets.Clean(string(o.line))
	text = strings.ToValidUTF8(strings.TrimSuffix(text, "\r"), "�")
	bare := plain(text)
	if clean := o.secrets.Clean(bare); clean != bare {
		text = clean
	}
	if len(text) > MaxLine {
		text = strings.ToValidUTF8(text[:MaxLine], "") + cut
	}
	o.line = o.line[:0]
	o.show(text)
	o.tail = append(o.tail, plain(text))
	if len(o.tail) > TailLines {
		o.tail = o.tail[1:]
	}
}

// plain drops control characters, which a report must not carry.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// quote puts the last lines into an error's text.
func quote(tail []string) string {
	if len(tail) == 0 {
		return ", without any output"
	}
	return "; its last output:\n  " + strings.Join(tail, "\n  ")
}
