package fleet

import (
	"errors"
	"strings"
	"sync"

	"github.com/manent/action/providers"
)

// Printer gives what machines print to whoever watches: line by line, one at a
// time, with the machine's name and without secrets. Both may be nil.
func Printer(output func(line string), secrets *providers.Redactor) func(machine, text string) {
	var mu sync.Mutex
	return func(machine, text string) {
		if output == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(text) {
			line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\r", " ")
			output(machine + ": " + clean(secrets, line))
		}
	}
}

// Named makes an error the provider's, without secrets; nil stays nil. secrets
// may be nil.
func Named(provider, op string, err error, secrets *providers.Redactor) error {
	if err == nil {
		return nil
	}
	kind, hint := providers.KindOf(err), clean(secrets, providers.HintOf(err))
	if text := err.Error(); clean(secrets, text) != text {
		err = errors.New(clean(secrets, text))
	}
	return &providers.Fault{Provider: provider, Op: op, Kind: kind, Err: err, Hint: hint}
}

func clean(secrets *providers.Redactor, text string) string {
	if secrets == nil {
		return text
	}
	return secrets.Clean(text)
}
