package deploy

import (
	"fmt"
	"sync"

	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/plugin"
)

// atOnce bounds how many workloads are asked about at the same time.
const atOnce = 16

// each does something for all workloads at once, so that a slow API server
// answers within one call of the engine; also when it fails for one of them,
// since capacity that can be brought back is better than none. What they say
// comes line by line.
func each(call plugin.Call, all []manifest.Workload, do func(plugin.Call, manifest.Workload) error) error {
	if show := call.Output; show != nil {
		var one sync.Mutex
		call.Output = func(line string) {
			one.Lock()
			defer one.Unlock()
			show(line)
		}
	}
	room := make(chan struct{}, atOnce)
	jobs := make([]func() error, len(all))
	for i, w := range all {
		jobs[i] = func() error {
			room <- struct{}{}
			defer func() { <-room }()
			return do(call, w)
		}
	}
	return together(jobs...)
}

// together does all at once and waits for all. The error is of the first
// one's kind.
func together(jobs ...func() error) error {
	problems := make([]error, len(jobs))
	var all sync.WaitGroup
	for i, do := range jobs {
		all.Go(func() { problems[i] = do() })
	}
	all.Wait()
	var out error
	for _, p := range problems {
		switch {
		case out == nil:
			out = p
		case p != nil:
			out = fmt.Errorf("%w; %w", out, p)
		}
	}
	return out
}
