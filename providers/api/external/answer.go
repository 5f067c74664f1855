package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxWait    = time.Hour // bounds retryAfter
	maxMessage = 1000      // characters of a program's message that are shown
)

// loose are texts, and what many programs write for a number that is none.
var loose = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// strict makes null of a number that is none: no field takes it, and the
// error is about the field and not about the whole answer.
func strict(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	return loose.ReplaceAllFunc(data, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte("null")
	})
}

// decode reads exactly one JSON document, numbers as json.Number.
func decode(data []byte) (any, error) {
	data = strict(bytes.TrimSpace(data))
	if len(data) == 0 {
		return nil, errors.New("there is no answer")
	}
	if !utf8.Valid(data) {
		return nil, errors.New("the answer is no UTF-8")
	}
	reader := json.NewDecoder(bytes.NewReader(data))
	reader.UseNumber()
	var out any
	if err := reader.Decode(&out); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the answer ends in the middle")
	} else if err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %.200w", err)
	}
	if _, err := reader.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the answer, expected one document and nothing else")
	}
	return out, nil
}

// parser reads the answer to one request.
type parser struct {
	id     string
	result reflect.Type
	redact func(string) string // makes a text one line without secrets
	list   string              // a list of the result whose entries are judged one by one; "" for none
	items  *[]any              // takes these
}

// apart takes the entries of the list out of a result.
func (p parser) apart(answer map[string]any) {
	result, _ := answer["result"].(map[string]any)
	if list, ok := result[p.list].([]any); ok && p.items != nil {
		*p.items, result[p.list] = list, []any{}
	}
}

// parse returns a result, or the program's own no. An error says why the
// answer counts for nothing.
func (p parser) parse(data []byte, exit int) (result any, no *Error, err error) {
	value, err := decode(data)
	if err != nil {
		return nil, nil, err
	}
	object, _ := value.(map[string]any)
	message, hint := p.texts(object)
	p.apart(object)
	if p.secret(value) {
		return nil, nil, errors.New("the answer holds a secret, which must not go into the state")
	}
	if err := fits(value, reflect.TypeFor[envelope](), "answer"); err != nil {
		return nil, nil, err
	}
	_, hasResult := object["result"]
	_, hasError := object["error"]
	switch {
	case fmt.Sprint(object["protocol"]) != fmt.Sprint(Protocol):
		return nil, nil, fmt.Errorf("the answer is of protocol %v, expected %d", object["protocol"], Protocol)
	case object["id"] != p.id:
		return nil, nil, errors.New("the answer is to another request: its id is not that of the request")
	case hasResult == hasError:
		return nil, nil, errors.New("the answer needs one of result and error")
	case hasError:
		no, err = parseError(object["error"], message, hint)
		return nil, no, err
	case exit != 0:
		return nil, nil, fmt.Errorf("the answer has a result, but the program ended with exit code %d", exit)
	}
	if err := fits(object["result"], p.result, "result"); err != nil {
		return nil, nil, err
	}
	out := reflect.New(p.result)
	if err := convert(object["result"], out.Interface()); err != nil {
		return nil, nil, err
	}
	return out.Elem().Interface(), nil, nil
}

// envelope is an answer without a look at what is in it.
type envelope struct {
	Protocol int    `json:"protocol"`
	ID       string `json:"id"`
	Result   any    `json:"result,omitempty"`
	Error    any    `json:"error,omitempty"`
}

// texts takes the message and the hint out of an error answer, cleaned: these
// may be anything, all other texts must be fit for the state.
func (p parser) texts(answer map[string]any) (message, hint string) {
	object, _ := answer["error"].(map[string]any)
	for key, into := range map[string]*string{"message": &message, "hint": &hint} {
		if text, ok := object[key].(string); ok {
			*into = cut(p.redact(text))
			object[key] = ""
		}
	}
	return message, hint
}

// secret looks at every text of a document.
func (p parser) secret(value any) bool {
	switch v := value.(type) {
	case string:
		return p.redact(v) != line(v)
	case []any:
		return slices.ContainsFunc(v, p.secret)
	case map[string]any:
		for key, inner := range v {
			if p.secret(key) || p.secret(inner) {
				return true
			}
		}
	}
	return false
}

func parseError(value any, message, hint string) (*Error, error) {
	if err := fits(value, reflect.TypeFor[Error](), "error"); err != nil {
		return nil, err
	}
	var out Error
	if err := convert(value, &out); err != nil {
		return nil, err
	}
	if message == "" {
		return nil, errors.New("error has no message")
	}
	out.Message, out.Hint = message, hint
	return &out, nil
}

// convert goes by way of the text, so that a key that was there twice counts
// as it was checked.
func convert(value any, into any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func (e *Error) wait() time.Duration {
	d, _ := time.ParseDuration(e.RetryAfter) // checked when it was read
	return min(d, maxWait)
}

// cut keeps the beginning of a long message.
func cut(text string) string {
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + " …"
	}
	return text
}

// line makes a text one line without what a report must not carry.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	return strings.TrimSpace(text)
}
