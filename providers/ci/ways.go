package ci

import (
	"strings"

	"github.com/manent/action/state"
)

// Hands is optional: a platform on which people act by other means than a
// command line names them, for a rollout that one of its runs has begun. job
// is the name of the generated job that the open approval belongs to, "" for
// none. A run that the platform cannot name has no ways.
type Hands interface {
	Ways(run state.RunRef, job string) Ways
}

// Ways are what a person does on a platform in place of a command, each empty
// where the platform has nothing for it. They speak of what generate writes.
type Ways struct {
	Approve Way // yes or no to a planned approval that a job of the run waits for
	Decide  Way // yes or no to anything else, or all traffic back
	GoOn    Way // with a rollout whose job has ended
	Again   Way // with a version whose rollout has failed
	Resume  Way // do what is due and nobody waits for
	Files   Way // bring the files of the repository into the job
}

// Way is one of them: what to do, in words that begin a sentence, and the page
// where it is done, "" for unknown. The words may end with a comma, to go on
// with the page.
type Way struct{ Do, At string }

// String is the way on one line.
func (w Way) String() string {
	if w.At == "" {
		return strings.TrimSuffix(w.Do, ",")
	}
	return w.Do + " at " + w.At
}
