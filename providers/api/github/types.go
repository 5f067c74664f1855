package github

import (
	"errors"
	"fmt"
	"slices"

	gh "github.com/google/go-github/v66/github"
)

// approval is a review of a run as the API gives it; go-github has no type
// for it.
type approval struct {
	State        string           `json:"state"`
	Comment      string           `json:"comment"`
	User         *gh.User         `json:"user"`
	Environments []gh.Environment `json:"environments"`
}

// read refuses what does not say who said what about which environment.
func (a approval) read() (Approval, error) {
	if !slices.Contains([]string{"approved", "rejected", "pending"}, a.State) {
		return Approval{}, fmt.Errorf("a review of the state %.40q, expected approved, rejected or pending", a.State)
	}
	if a.User.GetLogin() == "" || len(a.Environments) == 0 {
		return Approval{}, errors.New("a review without a person or an environment")
	}
	out := Approval{State: a.State, Who: a.User.GetLogin(), Comment: a.Comment}
	for _, e := range a.Environments {
		if e.GetName() == "" {
			return Approval{}, errors.New("a review of an environment without a name")
		}
		out.Environments = append(out.Environments, e.GetName())
	}
	return out, nil
}
