package wire

import (
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/providers/plugin/container"
	"github.com/manent/action/providers/plugin/exec"
	"github.com/manent/action/providers/plugin/external"
	"github.com/manent/action/providers/plugin/kubernetes"
	"github.com/manent/action/providers/plugin/remotecopy"
)

// Plugins are the plugins of this build.
func Plugins() []plugin.Spec {
	return []plugin.Spec{
		exec.Spec(),
		remotecopy.Spec(),
		container.Spec(),
		external.Spec(),
		kubernetes.Spec(),
	}
}
