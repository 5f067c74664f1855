package deploy

import (
	"sync"

	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/plugin"
)

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
	jobs := make([]func() error, len(all))
	for i, w := range all {
		jobs[i] = func() error { return do(call, w) }
	}
	return api.Together(jobs...)
}
