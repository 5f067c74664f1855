package store

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrTooLarge is in the chain of every refusal of an oversize document or
// object.
var ErrTooLarge = errors.New("too large")

// Check refuses a change that no store may take: a document or an object of
// more than MaxDocument bytes, a name or prefix that cannot be escaped, an
// object added and dropped at once.
func (c Change) Check() error {
	if len(c.Data) > MaxDocument {
		return tooLarge("document", len(c.Data))
	}
	for name, data := range c.Objects {
		if _, err := EscapeName(name); err != nil {
			return err
		}
		if len(data) > MaxDocument {
			return tooLarge(fmt.Sprintf("object %q", name), len(data))
		}
	}
	return c.checkDrop()
}

func (c Change) checkDrop() error {
	for _, prefix := range c.Drop {
		if _, err := EscapePrefix(prefix); err != nil {
			return err
		}
		for name := range c.Objects {
			if strings.HasPrefix(name, prefix) {
				return fmt.Errorf("object %q is added below the prefix %q that is dropped", name, prefix)
			}
		}
	}
	return nil
}

// ReadAll reads a document or an object and refuses one of more than
// MaxDocument bytes without reading it to its end.
func ReadAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxDocument+1))
	if err == nil && len(data) > MaxDocument {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxDocument)
	}
	return data, err
}

func tooLarge(what string, n int) error {
	return fmt.Errorf("%w: %s of %d bytes, expected at most %d", ErrTooLarge, what, n, MaxDocument)
}
