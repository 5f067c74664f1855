package github

import (
	"errors"
	"fmt"
	"slices"

	gh "github.com/google/go-github/v66/github"

	"github.com/manent/action/providers"
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

// environment is one as the API gives it; the type of go-github has no room
// for rules that it does not know.
type environment struct {
	ID       int64   `json:"id"`
	Name     string  `json:"name"`
	Bypass   *bool   `json:"can_admins_bypass"` // not in the description, but in every answer
	Branches *policy `json:"deployment_branch_policy"`
	Rules    []struct {
		Type         string `json:"type"`
		Wait         int    `json:"wait_timer"`
		NoSelfReview bool   `json:"prevent_self_review"`
		Reviewers    []struct {
			Type     string `json:"type"`
			Reviewer struct {
				ID    int64  `json:"id"`
				Login string `json:"login"`
				Slug  string `json:"slug"`
			} `json:"reviewer"`
		} `json:"reviewers"`
	} `json:"protection_rules"`
}

type policy struct {
	Protected bool `json:"protected_branches"`
	Custom    bool `json:"custom_branch_policies"`
}

// read refuses what is not the environment of that name, or has reviewers that
// nobody could set again.
func (e environment) read(name string) (Rules, error) {
	if e.ID == 0 || !providers.SameName(e.Name, name) {
		return Rules{}, fmt.Errorf("the answer is of environment %.100q", e.Name)
	}
	out := Rules{NoBypass: e.Bypass != nil && !*e.Bypass}
	switch b := e.Branches; {
	case b == nil:
	case b.Protected == b.Custom:
		return Rules{}, errors.New("a policy of branches that is neither of both")
	case b.Protected:
		out.Branches = ProtectedBranches
	default:
		out.Branches = NamedBranches
	}
	for _, rule := range e.Rules {
		switch rule.Type {
		case "wait_timer":
			out.Wait = rule.Wait
		case "required_reviewers":
			out.NoSelfReview = rule.NoSelfReview
			for _, r := range rule.Reviewers {
				one := Reviewer{Team: r.Type == "Team", ID: r.Reviewer.ID, Name: r.Reviewer.Login}
				if one.Team {
					one.Name = r.Reviewer.Slug
				}
				if one.ID == 0 || (r.Type != "Team" && r.Type != "User") {
					return Rules{}, fmt.Errorf("a reviewer of the type %.40q without an id", r.Type)
				}
				out.Reviewers = append(out.Reviewers, one)
			}
		}
	}
	return out, nil
}

// ruleSet is what the API is told.
type ruleSet struct {
	Wait         int        `json:"wait_timer"`
	NoSelfReview bool       `json:"prevent_self_review"`
	Reviewers    []reviewer `json:"reviewers"`
	Branches     *policy    `json:"deployment_branch_policy"`
	// Bypass is not in the description. It is sent only to keep what is set, since
	// left out it becomes true again.
	Bypass *bool `json:"can_admins_bypass,omitempty"`
}

type reviewer struct {
	Type string `json:"type"`
	ID   int64  `json:"id"`
}

func settings(rules Rules) ruleSet {
	out := ruleSet{Wait: rules.Wait, NoSelfReview: rules.NoSelfReview, Reviewers: []reviewer{}}
	for _, r := range rules.Reviewers {
		one := reviewer{Type: "User", ID: r.ID}
		if r.Team {
			one.Type = "Team"
		}
		out.Reviewers = append(out.Reviewers, one)
	}
	if rules.Branches != AnyBranch {
		out.Branches = &policy{Protected: rules.Branches == ProtectedBranches, Custom: rules.Branches == NamedBranches}
	}
	if rules.NoBypass {
		out.Bypass = new(false)
	}
	return out
}

// listing is a page of a repository's environments.
type listing struct {
	Total *int     `json:"total_count"` // of all pages
	List  []listed `json:"environments"`
}

type listed struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type patterns struct {
	List []pattern `json:"branch_policies"`
}

type pattern struct {
	ID   int64  `json:"id,omitempty"`
	Name string `json:"name"`
	Type string `json:"type"`
}
