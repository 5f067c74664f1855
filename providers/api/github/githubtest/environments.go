package githubtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/manent/action/providers"
)

// What a server does with required reviewers, which not every plan knows.
const (
	Enterprise = ""        // it knows them
	Refuses    = "refuses" // it says that the plan does not know them
	Ignores    = "ignores" // it says yes and does nothing
)

// Environment is one as it is set.
type Environment struct {
	Wait         int
	NoSelfReview bool
	Reviewers    []string // "user:ada", "team:ops"
	Branches     string   // "", "protected" or "custom"
	Patterns     []string // "main", "tag:v*"
	NoBypass     bool
}

// people are who there is, with ids.
func people() map[string]int {
	return map[string]int{
		"user:ada": 1, "user:bob": 2, "user:cyd": 3, "user:dan": 4, "user:eve": 5, "user:fay": 6, "user:gus": 7,
		"team:ops": 101, "team:sre": 102,
	}
}

// SetEnvironment adds an environment, or replaces it.
func (s *Server) SetEnvironment(name string, e Environment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.environments[name] = e
}

// Environments returns all of them.
func (s *Server) Environments() map[string]Environment {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Environment{}
	for name, e := range s.environments {
		out[name] = e
	}
	return out
}

// SetPlan says what the server does with reviewers, and whether the repository
// is private.
func (s *Server) SetPlan(plan string, private bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.private = plan, private
}

// doSetup carries out what is about the repository's settings, and reports
// whether the operation is one of those.
func (s *Server) doSetup(w http.ResponseWriter, r *http.Request, op Operation, path map[string]string, body []byte) (int, []byte, bool) {
	name := s.known(path["environment_name"])
	environment, there := s.environments[name]
	switch op.OperationID {
	case GetRepository:
		return http.StatusOK, encode(map[string]any{"full_name": Repo, "default_branch": "main", "private": s.private}), true
	case ListEnvironments:
		return http.StatusOK, s.listEnvironments(w, r), true
	case GetUser, GetTeam:
		status, reply := person(path)
		return status, reply, true
	case SetRules:
		status, reply := s.setRules(name, body)
		return status, reply, true
	case GetEnvironment, ListPatterns, AddPattern:
		if !there {
			return http.StatusNotFound, refusal("Not Found"), true
		}
	default:
		return 0, nil, false
	}
	switch op.OperationID {
	case GetEnvironment:
		return http.StatusOK, environment.show(name), true
	case ListPatterns:
		return http.StatusOK, s.listPatterns(w, r, environment), true
	}
	status, reply := s.addPattern(name, body)
	return status, reply, true
}

// known is the name as it was set: GitHub passes over capitals.
func (s *Server) known(name string) string {
	for known := range s.environments {
		if providers.SameName(known, name) {
			return known
		}
	}
	return name
}

func (s *Server) listEnvironments(w http.ResponseWriter, r *http.Request) []byte {
	var all []any
	for _, name := range slices.Sorted(maps.Keys(s.environments)) {
		all = append(all, json.RawMessage(undescribed(GetEnvironment, s.environments[name].show(name))))
	}
	list := json.RawMessage(s.page(w, r, slices.Clone(all)))
	return encode(map[string]any{"total_count": len(all), "environments": list})
}

func person(path map[string]string) (int, []byte) {
	key, kind := "user:"+path["username"], "User"
	if slug := path["team_slug"]; slug != "" {
		key = "team:" + slug
	}
	if path["username"] == "shop" {
		return http.StatusOK, encode(map[string]any{"id": 9, "login": "shop", "type": "Organization"})
	}
	id, known := people()[key]
	switch {
	case !known:
		return http.StatusNotFound, refusal("Not Found")
	case path["team_slug"] != "":
		return http.StatusOK, encode(map[string]any{"id": id, "slug": path["team_slug"]})
	}
	return http.StatusOK, encode(map[string]any{"id": id, "login": path["username"], "type": kind})
}

// setRules replaces all rules; what is left out gets its default.
func (s *Server) setRules(name string, body []byte) (int, []byte) {
	var in struct {
		Wait         int  `json:"wait_timer"`
		NoSelfReview bool `json:"prevent_self_review"`
		Reviewers    []struct {
			Type string
			ID   int
		}
		Branches *struct {
			Protected bool `json:"protected_branches"`
			Custom    bool `json:"custom_branch_policies"`
		} `json:"deployment_branch_policy"`
		Bypass *bool `json:"can_admins_bypass"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return http.StatusBadRequest, refusal("Problems parsing JSON")
	}
	out := Environment{Wait: in.Wait, NoSelfReview: in.NoSelfReview, NoBypass: in.Bypass != nil && !*in.Bypass}
	for _, r := range in.Reviewers {
		key := s.reviewer(r.Type, r.ID)
		if key == "" {
			return http.StatusUnprocessableEntity, refusal("Validation Failed")
		}
		out.Reviewers = append(out.Reviewers, key)
	}
	limited := len(out.Reviewers) > 0 || out.Wait > 0
	switch {
	case len(out.Reviewers) > 6 || out.Wait < 0 || out.Wait > 43200 || (in.Branches != nil && in.Branches.Protected == in.Branches.Custom):
		return http.StatusUnprocessableEntity, refusal("Validation Failed")
	case limited && s.plan == Refuses:
		return http.StatusUnprocessableEntity, refusal("Failed to create the environment protection rule. Please ensure the billing plan supports the required reviewers protection rule.")
	case limited && s.plan == Ignores:
		out.Reviewers, out.Wait, out.NoSelfReview = nil, 0, false
	case len(out.Reviewers) == 0:
		out.NoSelfReview = false // it is a property of the rule about reviewers
	}
	if b := in.Branches; b != nil && b.Protected {
		out.Branches = "protected"
	} else if b != nil {
		out.Branches, out.Patterns = "custom", s.environments[name].Patterns
	}
	s.environments[name] = out
	return http.StatusOK, out.show(name)
}

func (s *Server) reviewer(kind string, id int) string {
	for key, known := range people() {
		if known == id && strings.HasPrefix(key, strings.ToLower(kind)+":") {
			return key
		}
	}
	return ""
}

func (s *Server) listPatterns(w http.ResponseWriter, r *http.Request, e Environment) []byte {
	var all []any
	for i, p := range e.Patterns {
		all = append(all, showPattern(i, p))
	}
	slices.Reverse(all)
	var list []any
	if err := json.Unmarshal(s.page(w, r, all), &list); err != nil {
		panic(err)
	}
	return encode(map[string]any{"total_count": len(e.Patterns), "branch_policies": list})
}

func showPattern(i int, p string) map[string]any {
	name, kind := p, "branch"
	if tag, ok := strings.CutPrefix(p, "tag:"); ok {
		name, kind = tag, "tag"
	}
	return map[string]any{"id": 361471 + i, "node_id": "MDE2", "name": name, "type": kind}
}

func (s *Server) addPattern(name string, body []byte) (int, []byte) {
	in := struct{ Name, Type string }{Type: "branch"}
	if err := json.Unmarshal(body, &in); err != nil {
		return http.StatusBadRequest, refusal("Problems parsing JSON")
	}
	key, e := in.Name, s.environments[name]
	if in.Type == "tag" {
		key = "tag:" + in.Name
	}
	switch {
	case e.Branches != "custom":
		return http.StatusNotFound, refusal("Not Found")
	case slices.Contains(e.Patterns, key):
		return http.StatusSeeOther, nil
	}
	e.Patterns = append(slices.Clone(e.Patterns), key)
	s.environments[name] = e
	return http.StatusOK, encode(showPattern(len(e.Patterns)-1, key))
}

// show writes the environment as the API has it.
func (e Environment) show(name string) []byte {
	rules := []any{}
	if e.Wait > 0 {
		rules = append(rules, map[string]any{"id": 1, "node_id": "R1", "type": "wait_timer", "wait_timer": e.Wait})
	}
	if len(e.Reviewers) > 0 {
		list := []any{}
		for _, key := range e.Reviewers {
			list = append(list, showReviewer(key))
		}
		rules = append(rules, map[string]any{"id": 2, "node_id": "R2", "type": "required_reviewers", "prevent_self_review": e.NoSelfReview, "reviewers": list})
	}
	var branches any
	if e.Branches != "" {
		branches = map[string]any{"protected_branches": e.Branches == "protected", "custom_branch_policies": e.Branches == "custom"}
		rules = append(rules, map[string]any{"id": 3, "node_id": "R3", "type": "branch_policy"})
	}
	return encode(map[string]any{
		"id": 161088068, "node_id": "EN", "name": name, "url": base + "/environments/" + name, "html_url": "https://github.example/" + Repo + "/deployments",
		"created_at": moment, "updated_at": moment, "protection_rules": rules, "deployment_branch_policy": branches, "can_admins_bypass": !e.NoBypass,
	})
}

func showReviewer(key string) map[string]any {
	kind, name, _ := strings.Cut(key, ":")
	if kind == "user" {
		shown := user(name)
		shown["id"] = people()[key]
		return map[string]any{"type": "User", "reviewer": shown}
	}
	url := "https://api.github.example/teams/" + name
	return map[string]any{"type": "Team", "reviewer": map[string]any{
		"id": people()[key], "node_id": "T", "url": url, "members_url": url + "/members", "name": name, "description": "", "permission": "admin",
		"html_url": url, "repositories_url": url + "/repos", "slug": name, "parent": nil, "type": "organization", "organization_id": 5,
	}}
}

// undescribed takes from a request or an answer about an environment what
// GitHub knows and does not describe. Terraform's provider and go-github rely
// on it as well: a request without it sets it to true.
func undescribed(operation string, body []byte) []byte {
	if operation != SetRules && operation != GetEnvironment {
		return body
	}
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return body
	}
	if _, isBool := fields["can_admins_bypass"].(bool); !isBool {
		return body
	}
	delete(fields, "can_admins_bypass")
	return encode(fields)
}
