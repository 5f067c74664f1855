package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what an error of a provider means to a caller. The set is closed:
// every implementation maps the errors of its system to one of these, so that
// nobody above it looks at a vendor's types.
type Kind uint8

const (
	// Unknown means: nobody can say whether the call was carried out: a lost
	// answer, a truncated body, a deadline. The zero value, so that an error
	// nobody classified is never taken for a definite no.
	Unknown Kind = iota
	// Unavailable means: the system did not serve the call (5xx, connection refused).
	Unavailable
	// Throttled means: the system asks to come back later (429).
	Throttled
	// Denied means: the credentials are missing or insufficient (401, 403).
	Denied
	// NotFound means: the object the call names does not exist (404).
	NotFound
	// Invalid means: the system read the request and refused it as wrong (400, 422).
	Invalid
	// Conflict means: the system itself said that what it holds is not what the
	// caller expected (409, 412). A network error is never a conflict.
	Conflict
)

// String returns the kind's name, as used in messages and tests.
func (k Kind) String() string {
	names := [...]string{"unknown", "unavailable", "throttled", "denied", "not found", "invalid", "conflict"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Definite reports whether the system answered with a decision, so that
// trying the same call again is pointless without a change.
func (k Kind) Definite() bool {
	return k == Denied || k == NotFound || k == Invalid || k == Conflict
}

// Fault is the error every provider returns.
type Fault struct {
	Provider string        // name of the provider, "nginx"; named once in the message
	Op       string        // what was tried, with its object: "write weights of http://…"
	Kind     Kind          // what it means
	Err      error         // what happened, with the value
	Hint     string        // what to do; no "hint:" in front
	After    time.Duration // not before this time from now; 0 when the system did not say
}

// Error returns "provider: op: what happened", without the hint.
func (f *Fault) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{f.Provider, f.Op} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if f.Err != nil {
		parts = append(parts, f.Err.Error())
	} else {
		parts = append(parts, f.Kind.String())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the error below.
func (f *Fault) Unwrap() error { return f.Err }

// KindOf returns the kind of the first Fault in err's chain. An error that no
// provider classified, a cancelled or an expired context are Unknown.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Kind
	}
	return Unknown
}

// IsConflict reports whether err is the system's own word that it holds
// something else than expected.
func IsConflict(err error) bool { return err != nil && KindOf(err) == Conflict }

// HintOf returns the first hint in err's chain, "" when there is none.
func HintOf(err error) string {
	for err != nil {
		if f, ok := errors.AsType[*Fault](err); ok {
			if f.Hint != "" {
				return f.Hint
			}
			err = f.Err
			continue
		}
		return ""
	}
	return ""
}

// Lost reports whether err came from the caller's own context.
func Lost(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
