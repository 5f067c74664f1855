package nginx

import (
	"fmt"
	"strings"
)

// Directive is one directive of a configuration, with its block if it has one.
// Lines of a block such as map or split_clients are directives of it.
type Directive struct {
	Name  string
	Args  []string
	Block []Directive // nil without a block, not nil with an empty one
	Line  int         // 1 and up
}

// maxDepth bounds the nesting of blocks.
const maxDepth = 16

// Parse reads configuration text as NGINX's own reader takes it apart: words,
// quotes, comments, semicolons and blocks. It knows no directive and does not
// follow include.
func Parse(text string) ([]Directive, error) {
	p := &parser{words: words{text: text, line: 1}}
	all, err := p.block(0)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.words.line, err)
	}
	return all, nil
}

type parser struct{ words words }

// block reads directives up to the end of the text (depth 0) or to a "}".
func (p *parser) block(depth int) ([]Directive, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("blocks nested deeper than %d", maxDepth)
	}
	all := []Directive{}
	var now []string
	line := 0
	for {
		word, isWord, err := p.words.next()
		if err != nil {
			return nil, err
		}
		mark := word
		if isWord {
			mark = "word"
		}
		switch mark {
		case "", "}":
			if (mark == "") != (depth == 0) || len(now) > 0 {
				return nil, fmt.Errorf("unexpected %s", orEnd(mark))
			}
			return all, nil
		case ";", "{":
			if len(now) == 0 {
				return nil, fmt.Errorf("unexpected %q", mark)
			}
			d := Directive{Name: now[0], Args: now[1:], Line: line}
			if mark == "{" {
				if d.Block, err = p.block(depth + 1); err != nil {
					return nil, err
				}
			}
			all, now = append(all, d), nil
		default:
			if len(now) == 0 {
				line = p.words.line
			}
			now = append(now, word)
		}
	}
}

func orEnd(mark string) string {
	if mark == "" {
		return "end of the text"
	}
	return fmt.Sprintf("%q", mark)
}

// words takes text apart into words and the marks ; { }.
type words struct {
	text string
	at   int
	line int
}

const (
	blanks = " \t\r\n"
	marks  = ";{}"
)

// next returns the next word or mark; "" that is no word is the end.
func (w *words) next() (word string, isWord bool, err error) {
	for w.at < len(w.text) {
		c := w.text[w.at]
		switch {
		case strings.IndexByte(blanks, c) >= 0:
			w.skip(1)
		case c == '#':
			end := strings.IndexByte(w.text[w.at:], '\n')
			if end < 0 {
				end = len(w.text) - w.at
			}
			w.skip(end)
		case strings.IndexByte(marks, c) >= 0:
			w.skip(1)
			return string(c), false, nil
		case c == '"' || c == '\'':
			word, err = w.quoted(c)
			return word, true, err
		default:
			return w.bare(), true, nil
		}
	}
	return "", false, nil
}

func (w *words) skip(n int) {
	w.line += strings.Count(w.text[w.at:w.at+n], "\n")
	w.at += n
}

// quoted reads up to the closing quote. A backslash before a quote or a
// backslash is dropped; t, r and n after one are control characters.
func (w *words) quoted(quote byte) (string, error) {
	w.skip(1)
	var out strings.Builder
	for w.at < len(w.text) {
		c := w.text[w.at]
		if c == quote {
			w.skip(1)
			if w.at < len(w.text) && strings.IndexByte(blanks+";{)", w.text[w.at]) < 0 {
				return "", fmt.Errorf("unexpected %q after a quote", w.text[w.at])
			}
			return out.String(), nil
		}
		w.unescape(&out)
	}
	return "", fmt.Errorf("a quote is not closed")
}

// bare reads up to a blank, a semicolon or a brace; "${" is part of a word.
func (w *words) bare() string {
	var out strings.Builder
	for w.at < len(w.text) {
		c := w.text[w.at]
		if c == '$' && strings.HasPrefix(w.text[w.at:], "${") {
			out.WriteString("${")
			w.skip(2)
			continue
		}
		if strings.IndexByte(blanks+";{", c) >= 0 {
			break
		}
		w.unescape(&out)
	}
	return out.String()
}

// unescape takes one character, or a backslash with what it stands before.
func (w *words) unescape(out *strings.Builder) {
	c := w.text[w.at]
	if c == '\\' && w.at+1 < len(w.text) {
		next := w.text[w.at+1]
		w.skip(2)
		switch next {
		case '"', '\'', '\\':
			out.WriteByte(next)
		case 't':
			out.WriteByte('\t')
		case 'r':
			out.WriteByte('\r')
		case 'n':
			out.WriteByte('\n')
		default:
			out.WriteByte('\\')
			out.WriteByte(next)
		}
		return
	}
	w.skip(1)
	out.WriteByte(c)
}
