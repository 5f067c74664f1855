package setup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manent/action/runner/generate"
)

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

func some[T any](random *rand.Rand, of ...T) []T {
	var out []T
	for _, one := range of {
		if random.IntN(2) == 0 {
			out = append(out, one)
		}
	}
	return out
}

func ada() Reviewer { return Reviewer{ID: 1, Name: "ada"} }
func bob() Reviewer { return Reviewer{ID: 2, Name: "bob"} }
func ops() Reviewer { return Reviewer{Team: true, ID: 1, Name: "ops"} } // an id of its own kind

func anyEnvironment(random *rand.Rand) Environment {
	if random.IntN(4) == 0 {
		return Environment{}
	}
	e := Environment{
		There: true, Wait: pick(random, 0, 0, 30), NoSelfReview: random.IntN(2) == 0, NoBypass: random.IntN(2) == 0,
		Reviewers: some(random, ada(), bob(), ops()), Branches: pick(random, AnyBranch, ProtectedBranches, NamedBranches),
	}
	if e.Branches == NamedBranches {
		e.Patterns = some(random, Pattern{Name: "main"}, Pattern{Name: "release/*"}, Pattern{Name: "v*", Tag: true})
	}
	return e
}

// TestGitHubPlans: whatever is there and is asked for, a plan that was carried
// out leaves nothing to do, has what is needed, and has loosened nothing.
func TestGitHubPlans(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		need := generate.Needed{Name: "prod", Approval: random.IntN(2) == 0}
		wish := GitHubWish{Branch: "main", Tags: pick(random, "", "v*"), Reviewers: some(random, ada(), ops())}
		have := anyEnvironment(random)
		parts, err := PlanGitHub([]generate.Needed{need}, wish, []Environment{have})
		if nobody := need.Approval && len(have.Reviewers)+len(wish.Reviewers) == 0; (err != nil) != nobody {
			t.Fatalf("%+v, %+v: error %v", have, wish, err)
		}
		if err != nil {
			continue
		}
		should := parts[0].Should
		again, err := PlanGitHub([]generate.Needed{need}, wish, []Environment{should})
		if err != nil || again[0].Writes() || !cmp.Equal(again[0].Should, should) {
			t.Fatalf("%+v, %+v: a second plan writes %+v, error %v", have, wish, again[0].Changes, err)
		}
		if why := loosened(need, have, should); why != "" {
			t.Fatalf("%+v, %+v became %+v: %s", have, wish, should, why)
		}
		if need.Approval && (!should.NoSelfReview || len(should.Reviewers) == 0) || !need.Approval && should.Branches == AnyBranch {
			t.Fatalf("%+v is not what is needed", should)
		}
	}
}

func loosened(need generate.Needed, have, should Environment) string {
	strict := []Branches{"", AnyBranch, ProtectedBranches, NamedBranches}
	switch {
	case should.Wait < have.Wait, have.NoSelfReview && !should.NoSelfReview, have.NoBypass && !should.NoBypass:
		return "a rule is gone"
	case slices.Index(strict, should.Branches) < slices.Index(strict, have.Branches):
		return "more branches may deploy"
	case !need.Approval && !cmp.Equal(have.Reviewers, should.Reviewers):
		return "the reviewers of the secrets' environment have changed"
	}
	for _, r := range have.Reviewers {
		if !slices.Contains(should.Reviewers, r) {
			return "a reviewer is gone"
		}
	}
	if len(have.Patterns) > 0 && !slices.Contains(have.Patterns, Pattern{Name: "main"}) && slices.Contains(should.Patterns, Pattern{Name: "main"}) {
		return "a branch was let in that somebody had left out"
	}
	return ""
}

// TestDiffer: what a plan passed over, or somebody took away meanwhile, is
// seen.
func TestDiffer(t *testing.T) {
	should := Environment{There: true, Wait: 5, NoSelfReview: true, Reviewers: []Reviewer{ada(), ops()}, Branches: NamedBranches, Patterns: []Pattern{{Name: "main"}}, NoBypass: true}
	if part := Differ("prod", should, should); part.State != Kept || part.Writes() {
		t.Errorf("%+v, expected no difference", part)
	}
	for of, change := range map[string]func(*Environment){
		"wait timer":               func(e *Environment) { e.Wait = 0 },
		"prevent self-review":      func(e *Environment) { e.NoSelfReview = false },
		"reviewers":                func(e *Environment) { e.Reviewers = []Reviewer{ada()} },
		"branches that may deploy": func(e *Environment) { e.Branches = AnyBranch },
		"names that may deploy":    func(e *Environment) { e.Patterns = nil },
		"bypass by administrators": func(e *Environment) { e.NoBypass = false },
	} {
		have := should
		change(&have)
		if part := Differ("prod", have, should); part.State != WouldChange || !part.Writes() || len(part.Changes) != 1 || part.Changes[0].Of != of {
			t.Errorf("%s: %+v", of, part.Item)
		}
	}
	if part := Differ("prod", Environment{}, Environment{There: true}); part.State != WouldMake || !part.Rules {
		t.Errorf("%+v, expected that it is made", part)
	}
}

func TestTooManyReviewers(t *testing.T) {
	var seven []Reviewer
	for i := range 7 {
		seven = append(seven, Reviewer{ID: int64(i + 1), Name: fmt.Sprint(i)})
	}
	need := []generate.Needed{{Name: "prod-approve-25", Approval: true}}
	if _, err := PlanGitHub(need, GitHubWish{Reviewers: seven[:3]}, []Environment{{There: true, Reviewers: seven[3:]}}); err == nil || !strings.Contains(err.Error(), "7 reviewers") {
		t.Errorf("error %v", err)
	}
	if _, err := PlanGitHub(need, GitHubWish{Reviewers: seven[:3]}, []Environment{{There: true, Reviewers: seven[:6]}}); err != nil {
		t.Errorf("six of which three are named again: %v", err)
	}
}

// TestGitLabPlans: the same of a project.
func TestGitLabPlans(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	maintainers, eve := Access{"role", 40, "maintainer"}, Access{"user", 40, "eve"}
	for range 1000 {
		needs := generate.GitLabNeeds{Environments: []generate.Needed{{Name: "prod"}}, Groups: []string{"shop/web/prod"}, InRepo: random.IntN(2) == 0}
		wish := GitLabWish{AccessToken: random.IntN(2) == 0, Approvers: some(random, maintainers, eve)}
		have := GitLab{
			Branch: "main", Push: pick(random, nil, new(true), new(false)),
			NewGroups: pick(random, "", OldestFirst), Groups: map[string]string{}, Protected: map[string][]Access{},
		}
		if mode := pick(random, "", "unordered", "newest_first", OldestFirst); mode != "" {
			have.Groups["shop/web/prod"] = mode
		}
		for i := range random.IntN(4) {
			have.Schedules = append(have.Schedules, Schedule{
				ID: int64(i + 1), Name: pick(random, ScheduleName, "nightly"), Branch: pick(random, "main", "old"), Cron: pick(random, "0 1 * * *", generate.ResumeCron),
				Active: random.IntN(2) == 0, Variable: pick(random, "", "true", "false"),
			})
		}
		if random.IntN(2) == 0 {
			have.Protected["prod"] = some(random, maintainers, Access{"group", 40, "ops"})
		}
		after := carriedOut(needs, wish, have)
		for _, part := range PlanGitLab(needs, wish, after) {
			if part.Writes() {
				t.Fatalf("%+v, %+v: a second plan writes %+v", have, wish, part.Item)
			}
		}
		if len(after.Schedules) > len(have.Schedules)+1 || !slices.ContainsFunc(after.Schedules, func(s Schedule) bool { return s.Branch == "main" && s.Active && s.Variable == "true" }) {
			t.Fatalf("schedules %+v became %+v", have.Schedules, after.Schedules)
		}
		for _, a := range have.Protected["prod"] {
			if !slices.Contains(after.Protected["prod"], a) {
				t.Fatalf("%v may not deploy any more", a)
			}
		}
		if have.Push != nil && *have.Push != *after.Push && (!needs.InRepo || wish.AccessToken) {
			t.Fatal("job tokens may push, though nobody needs it")
		}
	}
}

// carriedOut is the project after a plan.
func carriedOut(needs generate.GitLabNeeds, wish GitLabWish, have GitLab) GitLab {
	after := have
	after.Groups, after.Protected, after.Schedules = map[string]string{}, map[string][]Access{}, slices.Clone(have.Schedules)
	for key, mode := range have.Groups {
		after.Groups[key] = mode
	}
	for name, who := range have.Protected {
		after.Protected[name] = who
	}
	for _, part := range PlanGitLab(needs, wish, have) {
		if part.Push {
			after.Push = new(true)
		}
		if part.Group != "" {
			after.Groups[part.Group] = OldestFirst
		}
		if s := part.Schedule; s != nil && s.ID == 0 {
			s.ID = 99
			after.Schedules = append(after.Schedules, *s)
		} else if s != nil {
			after.Schedules[s.ID-1] = *s
		}
		if p := part.Protect; p != nil {
			after.Protected[p.Environment] = append(slices.Clone(after.Protected[p.Environment]), p.Add...)
		}
	}
	return after
}
