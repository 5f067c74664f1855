package setup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/manent/action/runner/generate"
)

// maxReviewers is what GitHub allows of one environment.
const maxReviewers = 6

// Reviewer is a person or a team.
type Reviewer struct {
	Team bool
	ID   int64 // GitHub's
	Name string
}

// String returns "user:LOGIN" or "team:SLUG".
func (r Reviewer) String() string {
	if r.Team {
		return "team:" + r.Name
	}
	return "user:" + r.Name
}

// Pattern says which branches or tags may deploy.
type Pattern struct {
	Name string
	Tag  bool
}

// Branches says which branches may deploy to an environment.
type Branches string

// What an environment says of branches.
const (
	AnyBranch         Branches = "any"
	ProtectedBranches Branches = "protected branches"
	NamedBranches     Branches = "named branches"
)

// Environment is one of GitHub's, as it is or as it should be.
type Environment struct {
	There        bool
	Wait         int // minutes
	NoSelfReview bool
	Reviewers    []Reviewer
	Branches     Branches
	Patterns     []Pattern // with NamedBranches
	NoBypass     bool      // administrators keep to the rules as well
}

// GitHubWish is what a person asks for.
type GitHubWish struct {
	Branch    string // the default one of the repository
	Tags      string // pattern of the tags that rollouts begin with, "" for none
	Reviewers []Reviewer
}

// GitHubPart is one environment with what to do about it.
type GitHubPart struct {
	Item

	Name   string
	Should Environment
	Rules  bool      // the rules are to be written: they differ
	Add    []Pattern // patterns to be added, after the rules
}

// Writes reports whether there is anything to do.
func (p GitHubPart) Writes() bool { return p.Rules || len(p.Add) > 0 }

// PlanGitHub plans the environments that are needed, of which have is in the same
// order. It refuses what could not be approved by anybody.
func PlanGitHub(needs []generate.Needed, wish GitHubWish, have []Environment) ([]GitHubPart, error) {
	var parts []GitHubPart
	var nobody []string
	for i, need := range needs {
		should := shouldBe(need, wish, have[i])
		if n := len(should.Reviewers); n > maxReviewers {
			return nil, &Error{Reason: fmt.Sprintf("environment %s would have %d reviewers, GitHub allows %d", need.Name, n, maxReviewers), Hint: "a team counts as one reviewer"}
		}
		if need.Approval && len(should.Reviewers) == 0 {
			nobody = append(nobody, need.Name)
		}
		part := Differ(need.Name, have[i], should)
		if part.Notes = open(need, wish, should); len(part.Notes) > 0 && !part.Writes() {
			part.State = ByHand
		}
		if len(need.Secrets) > 0 {
			part.Notes = append(part.Notes, "set its secrets yourself: "+list(need.Secrets))
		}
		parts = append(parts, part)
	}
	if len(nobody) > 0 {
		return parts, &Error{
			Reason: fmt.Sprintf("nobody could approve: %s would have no reviewers", list(nobody)),
			Hint:   "add --reviewer user:LOGIN or --reviewer team:SLUG; without required reviewers there is `manent generate github --mode dispatch`",
		}
	}
	return parts, nil
}

// shouldBe adds to what is there, and takes nothing away: an environment that
// lets fewer branches deploy, or asks more people, was made so by somebody.
func shouldBe(need generate.Needed, wish GitHubWish, have Environment) Environment {
	should := have
	should.There = true
	should.Reviewers, should.Patterns = slices.Clone(have.Reviewers), slices.Clone(have.Patterns)
	if need.Approval {
		should.NoSelfReview = true
		for _, r := range wish.Reviewers {
			if !slices.ContainsFunc(should.Reviewers, func(has Reviewer) bool { return has.Team == r.Team && has.ID == r.ID }) {
				should.Reviewers = append(should.Reviewers, r)
			}
		}
		return should
	}
	if should.Branches == AnyBranch || should.Branches == "" {
		should.Branches = NamedBranches
	}
	if should.Branches != NamedBranches {
		return should
	}
	if len(should.Patterns) == 0 { // also what a setup that was cut off leaves: nobody could deploy
		should.Patterns = []Pattern{{Name: wish.Branch}}
	}
	if tags := (Pattern{Name: wish.Tags, Tag: true}); wish.Tags != "" && !slices.Contains(should.Patterns, tags) {
		should.Patterns = append(should.Patterns, tags)
	}
	return should
}

// Differ says what makes one environment the other. After a write it is asked
// again, with what was read then: a plan may ignore what it does not know.
func Differ(name string, have, should Environment) GitHubPart {
	var rules, named compare
	rules.text("wait timer", minutes(have.Wait), minutes(should.Wait))
	rules.text("reviewers", reviewers(have.Reviewers), reviewers(should.Reviewers))
	if have.There || should.NoSelfReview {
		rules.flag("prevent self-review", have.NoSelfReview, should.NoSelfReview)
	}
	rules.text("branches that may deploy", branches(have), branches(should))
	rules.flag("bypass by administrators", !have.NoBypass, !should.NoBypass)
	part := GitHubPart{Name: name, Should: should, Rules: len(rules) > 0 || !have.There}
	for _, p := range should.Patterns {
		if !slices.Contains(have.Patterns, p) {
			part.Add = append(part.Add, p)
		}
	}
	named.text("names that may deploy", patterns(have.Patterns), patterns(should.Patterns))
	part.Item = Item{What: "environment " + name, State: Kept, Changes: append(rules, named...)}
	switch {
	case !have.There:
		part.State = WouldMake
	case len(part.Changes) > 0:
		part.State = WouldChange
	}
	return part
}

// open is what keeps rollouts from going through and no program is to change.
func open(need generate.Needed, wish GitHubWish, should Environment) []string {
	var out []string
	if need.Approval {
		return nil
	}
	if len(should.Reviewers) > 0 {
		out = append(out, fmt.Sprintf("every job of a rollout waits for its reviewers (%s): take them away under Settings > Environments > %s", reviewers(should.Reviewers), need.Name))
	}
	if should.Wait > 0 {
		out = append(out, fmt.Sprintf("every job of a rollout waits %s: take the wait timer away under Settings > Environments > %s", minutes(should.Wait), need.Name))
	}
	if should.Branches == ProtectedBranches && wish.Tags != "" {
		out = append(out, "only protected branches may deploy, so that no rollout can begin with a tag: name branches and tags under Settings > Environments > "+need.Name)
	}
	if should.Branches == NamedBranches && !slices.ContainsFunc(should.Patterns, func(p Pattern) bool { return !p.Tag && fits(p.Name, wish.Branch) }) {
		out = append(out, fmt.Sprintf("the default branch %s may not deploy, though manent.traffic-retire runs there: add it under Settings > Environments > %s", wish.Branch, need.Name))
	}
	return out
}

// fits is a guess in favour of the pattern: it only keeps a note away.
func fits(pattern, branch string) bool {
	start, _, wild := strings.Cut(pattern, "*")
	return pattern == branch || (wild && strings.HasPrefix(branch, start))
}

func minutes(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " minutes"
}

func branches(e Environment) string {
	if e.Branches == "" {
		return string(AnyBranch)
	}
	return string(e.Branches)
}

func reviewers(all []Reviewer) string {
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.String()
	}
	slices.Sort(names)
	return list(names)
}

func patterns(all []Pattern) string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
		if p.Tag {
			names[i] = "tags " + p.Name
		}
	}
	slices.Sort(names)
	return list(names)
}
