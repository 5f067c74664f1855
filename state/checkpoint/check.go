package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/manent/action/state"
)

// check refuses values that no build writes. It is the last look before
// traffic is moved on a document's word, whoever wrote it.
func check(doc *state.Document, key string) error {
	switch {
	case doc.Key != key:
		return fmt.Errorf("key is %q, expected %q", doc.Key, key)
	case doc.Seq == 0:
		return errors.New("seq is 0, expected 1 or more")
	case doc.Nonce == "":
		return errors.New("no nonce")
	}
	seen := map[string]bool{}
	for i := range doc.Passes {
		pass := &doc.Passes[i]
		if err := unique(seen, pass.Name); err != nil {
			return fmt.Errorf("passes: %w", err)
		}
		if err := checkPass(pass); err != nil {
			return fmt.Errorf("pass %q: %w", pass.Name, err)
		}
	}
	for i := range doc.History {
		past := &doc.History[i]
		if past.ID == "" || !past.Status.Terminal() {
			return fmt.Errorf("history: rollout %q has status %q, expected an ended one", past.ID, past.Status)
		}
	}
	if doc.Lease != nil && doc.Lease.ID == "" {
		return errors.New("lease: no id")
	}
	if doc.Rollout == nil {
		return nil
	}
	if err := checkRollout(doc.Rollout); err != nil {
		return fmt.Errorf("rollout %q: %w", doc.Rollout.ID, err)
	}
	return checkReturn(doc)
}

// checkReturn refuses a return of passes that are not there: it would end with
// nothing done.
func checkReturn(doc *state.Document) error {
	if !doc.Rollout.Status.Terminal() && len(doc.Passes) == 0 {
		return errors.New("a rollout without a pass")
	}
	if doc.Rollout.Return == nil {
		return nil
	}
	for _, name := range doc.Rollout.Return.Passes {
		if doc.Pass(name) == nil {
			return fmt.Errorf("return: no pass %q", name)
		}
	}
	return nil
}

func checkPass(pass *state.Pass) error {
	if err := slot("serving", pass.Serving, true); err != nil {
		return err
	}
	if err := slot("candidate", pass.Slots.Candidate, true); err != nil {
		return err
	}
	if err := percent("share", pass.Share); err != nil {
		return err
	}
	if pass.Retirement != nil {
		if err := slot("retirement", pass.Retirement.Slot, false); err != nil {
			return err
		}
	}
	return weights(pass.Weights)
}

func checkRollout(r *state.Rollout) error {
	switch {
	case r.ID == "" || strings.Contains(r.ID, "/"):
		return errors.New("id is empty or has a slash")
	case r.Version == "":
		return errors.New("no version")
	}
	if err := oneOf("status", r.Status, state.Running, state.Waiting, state.Drifted, state.Paused,
		state.Returning, state.Returned, state.Stopped, state.Completed); err != nil {
		return err
	}
	switch {
	case r.Status == state.Returning && r.Return == nil:
		return errors.New("returning without a return")
	case !strings.HasPrefix(strings.TrimSpace(string(r.Config)), "{"):
		return errors.New("no pinned configuration")
	}
	if err := checkStages(r.Stages); err != nil {
		return err
	}
	if err := checkSteps(r.Steps); err != nil {
		return err
	}
	for _, decision := range r.Decisions {
		if err := oneOf("decision", decision.Verb, "approve", "reject", "revert"); err != nil {
			return err
		}
	}
	if r.Pause == nil {
		return nil
	}
	if err := oneOf("pause", r.Pause.Kind, state.PauseApproval, state.PauseDrift, state.PauseBusy,
		state.PauseRerun, state.PauseOrphan); err != nil {
		return err
	}
	return weights(r.Pause.Weights)
}

func checkStages(stages []state.Stage) error {
	seen := map[string]bool{}
	for i := range stages {
		stage := &stages[i]
		err := errors.Join(
			unique(seen, stage.Name),
			oneOf("status", stage.Status, state.StagePending, state.StageBaking, state.StagePassed, state.StageUngated, state.StageFailed),
			percent("share", stage.Share), percent("achieved", stage.Achieved), score(stage.Score),
		)
		for j := range stage.Readings {
			reading := &stage.Readings[j]
			err = errors.Join(err, score(reading.Score),
				oneOf("verdict", reading.Verdict, "green", "red", "thin", "error", "void", "ungated"))
		}
		if err != nil {
			return fmt.Errorf("stage %q: %w", stage.Name, first(err))
		}
	}
	return nil
}

func checkSteps(steps []state.Step) error {
	seen := map[string]bool{}
	for i := range steps {
		step := &steps[i]
		err := errors.Join(unique(seen, step.Name), oneOf("state", step.State, state.Started, state.Done, state.Skipped, state.Failed))
		if step.Intent != nil {
			err = errors.Join(err, weights(step.Intent.From), weights(step.Intent.To), percent("share", step.Intent.Share))
		}
		if err != nil {
			return fmt.Errorf("step %q: %w", step.Name, first(err))
		}
	}
	return nil
}

// first is the first of joined errors: one line is enough to stop on.
func first(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return first(joined.Unwrap()[0])
	}
	return err
}

func unique(seen map[string]bool, name string) error {
	if seen[name] {
		return fmt.Errorf("name %q is there twice", name)
	}
	seen[name] = true
	return nil
}

func oneOf[T ~string](what string, value T, known ...T) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%s %q, expected one of %v", what, value, known)
}

func slot(what string, value state.Slot, optional bool) error {
	if optional && value == "" {
		return nil
	}
	return oneOf(what, value, state.SlotA, state.SlotB)
}

func percent(what string, value float64) error {
	if value >= 0 && value <= 100 { // false for NaN
		return nil
	}
	return fmt.Errorf("%s is %v, expected 0 to 100", what, value)
}

func score(value *float64) error {
	if value == nil {
		return nil
	}
	return percent("score", *value)
}

func weights(parts []state.PartWeights) error {
	for _, part := range parts {
		for unit, weight := range part.Weights {
			if !(weight >= 0) || math.IsInf(weight, 0) {
				return fmt.Errorf("part %q: weight of %q is %v, expected a number from 0", part.ID, unit, weight)
			}
		}
	}
	return nil
}
