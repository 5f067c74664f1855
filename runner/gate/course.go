package gate

import (
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

// CourseOf is the rollout around a stage. stages are those of its attempt, in
// order: a retry begins with fresh evidence and a fresh budget.
func CourseOf(cfg config.Config, stages []state.Stage, stage state.Stage) Course {
	c := Course{Bake: cfg.Rollout.Traffic.Bake.Std(), Stages: cfg.CompareStages(), Passes: cfg.Passes(), Memory: stage.Memory}
	for _, s := range stages {
		if s.Name == stage.Name {
			break
		}
		if s.Pass == stage.Pass && len(s.Memory) > 0 {
			c.Earlier = append(c.Earlier, s.Memory)
		}
	}
	return c
}
