// Package ci is the contract of the platform whose pipeline calls manent. It
// must not know what a rollout is; it gets text and key-value pairs.
package ci

import (
	"context"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/state"
)

// Platform is the pipeline's platform.
type Platform interface {
	// Identity says which run this process belongs to.
	Identity(ctx context.Context) (state.RunRef, error)
	// Output hands values to later steps of the pipeline.
	Output(values map[string]string) error
	// Summary shows Markdown where the platform shows a job's result.
	Summary(markdown string) error
	// Annotate shows a message with a level ("error", "warning", "notice").
	Annotate(level, message string) error
	// Mask keeps a value out of everything that the platform prints.
	Mask(secret providers.Secret) error
}

// Reviews is optional: a platform that asks people itself tells who said what
// in a run. An error means that it could not be told; no review is an empty
// list, and never an approval.
type Reviews interface {
	Reviews(ctx context.Context, run state.RunRef) ([]Review, error)
}

// Review is what one person said about one environment of a run.
type Review struct {
	Environment string // as the platform calls it
	State       ReviewState
	Who         string // login name
	Comment     string
}

// ReviewState is what a person said.
type ReviewState string

// The states of a review.
const (
	Approved ReviewState = "approved"
	Rejected ReviewState = "rejected"
	Pending  ReviewState = "pending"
)

// Deployments is optional: a platform that shows what is deployed where is
// told of each rollout. Track creates the rollout's deployment or updates it;
// telling it twice changes nothing, and nobody's other deployment is touched.
type Deployments interface {
	Track(ctx context.Context, d Deployment) error
}

// Deployment is a rollout as a platform shows it.
type Deployment struct {
	Rollout     string    // id of the rollout: one deployment each
	Began       time.Time // when the rollout began: no deployment of before is its own
	Environment string
	Version     string
	State       DeploymentState
	Description string // one line, cut to what the platform takes
	URL         string // of the run, "" for none
}

// DeploymentState is how far a rollout is.
type DeploymentState string

// The states of a deployment. Only Succeeded says that the version serves.
const (
	InProgress DeploymentState = "in progress"
	Waiting    DeploymentState = "waiting" // for a person
	Succeeded  DeploymentState = "succeeded"
	Failed     DeploymentState = "failed" // returned, or stopped
)

// Spec describes one platform. Detect reports whether this process runs on it.
type Spec struct {
	Name    string
	Summary string
	Detect  func(providers.Env) bool
	New     func(providers.Env) (Platform, error)
}
