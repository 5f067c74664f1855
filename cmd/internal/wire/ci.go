package wire

import (
	"github.com/manent/action/providers/ci"
	"github.com/manent/action/providers/ci/github"
	"github.com/manent/action/providers/ci/gitlab"
	"github.com/manent/action/providers/ci/local"
)

// Platforms are the platforms of this build. The first that recognizes its
// environment counts; local always does and stays last.
func Platforms() []ci.Spec {
	return []ci.Spec{
		github.Spec(),
		gitlab.Spec(),
		local.Spec(),
	}
}

// Platform returns the platform that this process runs on.
func (h Host) Platform() (ci.Platform, error) {
	env := h.env(nil)
	specs := Platforms()
	for _, s := range specs {
		if s.Detect(env) {
			return s.New(env)
		}
	}
	return specs[len(specs)-1].New(env)
}
