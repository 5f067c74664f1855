package kubernetes

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/manent/action/providers"
)

// atOnce bounds the requests at the same time.
const atOnce = 16

// Together does all at the same time, so that a slow API server answers within
// one call of the engine, and waits for all. The error is of the first one's
// kind.
func Together(jobs ...func() error) error {
	problems := make([]error, len(jobs))
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, do := range jobs {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			problems[i] = do()
		})
	}
	all.Wait()
	return Join(problems...)
}

// InTurn makes a log, which may be nil, one that calls made together can write
// to.
func InTurn(log func(format string, args ...any)) func(format string, args ...any) {
	var one sync.Mutex
	return func(format string, args ...any) {
		one.Lock()
		defer one.Unlock()
		if log != nil {
			log(format, args...)
		}
	}
}

// Join makes one error of several, nil of none; it is of the first one's kind.
func Join(problems ...error) error {
	var out several
	for _, p := range problems {
		if p != nil {
			out = append(out, p)
		}
	}
	switch len(out) {
	case 0:
		return nil
	case 1:
		return out[0]
	}
	return out
}

// several are errors of calls that were made at the same time.
type several []error

// Error names the provider, and what happened to several, once.
func (s several) Error() string {
	text, seen, more := []string{s[0].Error()}, map[string]bool{cause(s[0]): true}, 0
	for _, p := range s[1:] {
		if why := cause(p); !seen[why] {
			seen[why] = true
			text = append(text, Bare(p).Error())
			continue
		}
		more++
	}
	if more > 0 {
		text = append(text, fmt.Sprintf("the same of %d more requests", more))
	}
	return strings.Join(text, "; ")
}

// Unwrap gives all of them.
func (s several) Unwrap() []error { return s }

// cause is what happened, without what was tried.
func cause(err error) string {
	for {
		f, ok := errors.AsType[*providers.Fault](err)
		if !ok || f.Err == nil {
			return err.Error()
		}
		err = f.Err
	}
}

// Bare is an error of a client without the provider's name, for whoever wraps
// it in one that has it.
func Bare(err error) error {
	switch e := err.(type) { //nolint:errorlint // each link of the chain is looked at by itself
	case *providers.Fault:
		bare := *e
		bare.Provider, bare.Err = "", Bare(e.Err)
		return &bare
	case several:
		out := make(several, len(e))
		for i, p := range e {
			out[i] = Bare(p)
		}
		return out
	}
	return err
}
