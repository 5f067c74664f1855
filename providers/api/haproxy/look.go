package haproxy

import (
	"context"
	"sync"
)

// Seen is one look at an instance. What else than the configured weights could
// not be seen is in it.
type Seen struct {
	Configuration                    // its version 0 where that could not be read
	Running       map[string]Running // nil where it could not be seen
	Dark          error              // why not

	backend   Backend
	rules     []string // types of the stick rules
	algorithm string   // that runs, where backend has none of its own
	doubt     error    // why one of these, or the version, could not be seen
}

// Look asks for everything at the same time, so that a slow API takes the time
// of one call. Its error is that the configured weights of members cannot be
// known; those of other servers are in doubt at most.
func (i Instance) Look(ctx context.Context, members []string) (Seen, error) {
	var s Seen
	var version int64
	var list []Server
	var versionErr, serversErr, backendErr, rulesErr, algorithmErr error
	together(
		func() { version, versionErr = i.Version(ctx) },
		func() { list, serversErr = i.Servers(ctx) },
		func() { s.backend, backendErr = i.Backend(ctx) },
		func() { s.rules, rulesErr = i.StickRules(ctx) },
		func() { s.algorithm, algorithmErr = i.Algorithm(ctx) },
		func() { s.Running, s.Dark = i.Running(ctx) },
	)
	if serversErr != nil {
		return s, first(versionErr, serversErr) // which of them knows what the API speaks
	}
	if err := senseless(list, members); err != nil {
		return s, err
	}
	if backendErr != nil && lacksWeight(list, members) {
		return s, backendErr
	}
	s.Configuration = s.backend.configuration(list)
	s.Version = version
	if s.backend.Balance != nil {
		s.algorithm, algorithmErr = s.backend.Balance.Algorithm, nil
	}
	s.doubt = first(versionErr, backendErr, rulesErr, algorithmErr, senseless(list, names(list)))
	return s, nil
}

func names(list []Server) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = s.Name
	}
	return out
}

// together does all of it at the same time.
func together(ask ...func()) {
	var all sync.WaitGroup
	for _, f := range ask {
		all.Go(f)
	}
	all.Wait()
}

func first(problems ...error) error {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}
