package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Review is what a person said in a run.
type Review struct {
	State, Who, Comment string
	Environments        []string
}

// Review adds a review to a run.
func (s *Server) Review(run int64, r Review) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reviews[run] = append(s.reviews[run], r)
}

// Shown is a deployment as people see it.
type Shown struct {
	Environment, Task string
	Statuses          []string // "state: description", oldest first
}

// Shown returns all deployments, oldest first.
func (s *Server) Shown() []Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Shown
	for _, d := range s.deployments {
		shown := Shown{Environment: d.Environment, Task: d.Task}
		for _, st := range d.statuses {
			shown.Statuses = append(shown.Statuses, st.State+": "+st.Description)
		}
		out = append(out, shown)
	}
	return out
}

// Add adds a deployment of somebody else, with the states of its statuses.
func (s *Server) Add(environment, task string, states ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &deployment{id: s.id(), Ref: Commit, Environment: environment, Task: task}
	for _, state := range states {
		d.statuses = append(d.statuses, status{id: s.id(), State: state})
	}
	s.deployments = append(s.deployments, d)
}

type deployment struct {
	id          int64
	Ref         string
	Environment string
	Task        string
	Description string
	Payload     any
	Transient   bool `json:"transient_environment"`
	Production  bool `json:"production_environment"`
	statuses    []status

	AutoMerge *bool     `json:"auto_merge"`
	Contexts  *[]string `json:"required_contexts"`
}

type status struct {
	id           int64
	State        string
	Description  string
	LogURL       string `json:"log_url"`
	AutoInactive *bool  `json:"auto_inactive"`
}

func (s *Server) id() int64 { s.ids++; return s.ids }

// do carries out what was allowed.
func (s *Server) do(w http.ResponseWriter, r *http.Request, op Operation, path map[string]string, body []byte) (int, []byte) {
	if status, reply, is := s.doSetup(w, r, op, path, body); is {
		return status, reply
	}
	id, _ := strconv.ParseInt(path["deployment_id"], 10, 64) // 0 is none
	at := slices.IndexFunc(s.deployments, func(d *deployment) bool { return d.id == id })
	switch op.OperationID {
	case Reviews:
		run, _ := strconv.ParseInt(path["run_id"], 10, 64)
		return http.StatusOK, s.listReviews(run)
	case ListDeployments:
		return http.StatusOK, s.page(w, r, s.find(r))
	case CreateDeployment:
		return s.create(body)
	}
	if at < 0 {
		return http.StatusNotFound, refusal("Not Found")
	}
	if op.OperationID == ListStatuses {
		var all []any
		for _, st := range s.deployments[at].statuses {
			all = append(all, s.deployments[at].show(st))
		}
		return http.StatusOK, s.page(w, r, all)
	}
	return s.addStatus(s.deployments[at], body)
}

func (s *Server) listReviews(run int64) []byte {
	out := []any{}
	for _, review := range s.reviews[run] {
		environments := []any{}
		for i, e := range review.Environments {
			environments = append(environments, map[string]any{
				"id": i + 1, "node_id": "MDEx", "name": e, "created_at": moment, "updated_at": moment,
				"url": base + "/environments/" + e, "html_url": "https://github.example/" + Repo + "/deployments",
			})
		}
		out = append(out, map[string]any{"state": review.State, "comment": review.Comment, "user": user(review.Who), "environments": environments})
	}
	return encode(out)
}

// find filters as the query says; the server returns the newest first.
func (s *Server) find(r *http.Request) []any {
	var out []any
	for _, d := range s.deployments {
		query, fits := r.URL.Query(), true
		for key, value := range map[string]string{"task": d.Task, "environment": d.Environment, "ref": d.Ref, "sha": d.Ref} {
			fits = fits && (query.Get(key) == "" || query.Get(key) == value)
		}
		if fits {
			out = append(out, d.show())
		}
	}
	return out
}

// page returns a part of a list of which the newest is first.
func (s *Server) page(w http.ResponseWriter, r *http.Request, all []any) []byte {
	slices.Reverse(all)
	number := func(key string, otherwise int) int {
		if n, err := strconv.Atoi(r.URL.Query().Get(key)); err == nil {
			return n
		}
		return otherwise
	}
	size, page := min(number("per_page", 30), 100), number("page", 1)
	from := min((page-1)*size, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(page+1))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, s.URL, r.URL.Path, query.Encode()))
	}
	return encode(append([]any{}, all[from:to]...))
}

// create does what the description says in its prose: it merges and asks for
// green statuses unless told not to.
func (s *Server) create(body []byte) (int, []byte) {
	d := &deployment{id: s.id(), Environment: "production", Task: "deploy", Payload: ""}
	if err := json.Unmarshal(body, d); err != nil {
		return http.StatusBadRequest, refusal("Problems parsing JSON")
	}
	switch {
	case d.AutoMerge == nil || *d.AutoMerge:
		return http.StatusAccepted, encode(map[string]any{"message": "Auto-merged main into " + d.Ref + " on deployment."})
	case d.Contexts == nil || len(*d.Contexts) > 0:
		return http.StatusConflict, refusal("Conflict: Commit status checks failed for " + d.Ref)
	case d.Ref != Commit:
		return http.StatusUnprocessableEntity, refusal("No ref found for: " + d.Ref)
	}
	s.deployments = append(s.deployments, d)
	return http.StatusCreated, encode(d.show())
}

// addStatus adds a status and, as the default is, marks what the environment
// had before as inactive.
func (s *Server) addStatus(d *deployment, body []byte) (int, []byte) {
	st := status{id: s.id()}
	if err := json.Unmarshal(body, &st); err != nil {
		return http.StatusBadRequest, refusal("Problems parsing JSON")
	}
	if utf8.RuneCountInString(st.Description) > 140 {
		return http.StatusUnprocessableEntity, refusal("description is too long (maximum is 140 characters)")
	}
	if st.State == "success" && (st.AutoInactive == nil || *st.AutoInactive) {
		s.retire(d)
	}
	d.statuses = append(d.statuses, st)
	return http.StatusCreated, encode(d.show(st))
}

func (s *Server) retire(by *deployment) {
	for _, d := range s.deployments {
		last := len(d.statuses) - 1
		if d != by && d.Environment == by.Environment && !d.Transient && !d.Production && last >= 0 && d.statuses[last].State == "success" {
			d.statuses = append(d.statuses, status{id: s.id(), State: "inactive"})
		}
	}
}

const (
	base   = "https://api.github.example/repos/" + Repo
	moment = "2026-11-30T10:00:00Z"
)

// show writes the deployment or one of its statuses as the API has it.
func (d *deployment) show(statuses ...status) map[string]any {
	url := fmt.Sprintf("%s/deployments/%d", base, d.id)
	out := map[string]any{
		"id": d.id, "node_id": "MDEw", "url": url, "environment": d.Environment, "description": d.Description,
		"creator": user("github-actions[bot]"), "created_at": moment, "updated_at": moment, "repository_url": base,
		"performed_via_github_app": nil,
	}
	for _, st := range statuses {
		out["id"], out["state"], out["description"] = st.id, st.State, st.Description
		out["target_url"], out["log_url"], out["environment_url"] = st.LogURL, st.LogURL, ""
		out["url"], out["deployment_url"] = fmt.Sprintf("%s/statuses/%d", url, st.id), url
		return out
	}
	out["sha"], out["ref"], out["task"], out["statuses_url"] = d.Ref, d.Ref, d.Task, url+"/statuses"
	out["payload"], out["original_environment"] = d.Payload, d.Environment
	out["transient_environment"], out["production_environment"] = d.Transient, d.Production
	if d.Payload == nil {
		out["payload"] = ""
	}
	return out
}

func user(login string) map[string]any {
	url := "https://api.github.example/users/" + login
	out := map[string]any{"login": login, "id": 583231, "node_id": "MDQ6", "gravatar_id": "", "type": "User", "site_admin": false, "avatar_url": url, "html_url": url, "url": url}
	for _, key := range []string{"events", "followers", "following", "gists", "organizations", "received_events", "repos", "starred", "subscriptions"} {
		out[key+"_url"] = url + "/" + key
	}
	return out
}
