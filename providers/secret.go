package providers

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

const redacted = "[redacted]"

// Secret is a value that prints itself as "[redacted]" whatever the verb,
// and encodes itself the same way. Only Reveal gives the value.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value, for the one call that needs it.
func (s Secret) Reveal() string { return s.value }

// Empty reports whether there is no value.
func (s Secret) Empty() bool { return s.value == "" }

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler, and with it JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Redactor replaces the secrets it was told of in any text. The zero value is
// ready; it may be used from several goroutines.
type Redactor struct {
	mu     sync.Mutex
	values []string
}

// Add remembers a secret and each of its lines of 4 characters and more: a
// shorter piece would blank ordinary words.
func (r *Redactor) Add(s Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range append(strings.Split(s.value, "\n"), s.value) {
		if len(strings.TrimSpace(line)) >= 4 && !slices.Contains(r.values, line) {
			r.values = append(r.values, line)
		}
	}
}

// Clean returns text with every known secret replaced.
func (r *Redactor) Clean(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.values) - 1; i >= 0; i-- {
		text = strings.ReplaceAll(text, r.values[i], redacted)
	}
	return text
}
