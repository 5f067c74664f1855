package gitlabtest

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Path is the path of the project.
const Path = "shop/web"

// Schedule is a pipeline schedule.
type Schedule struct {
	ID                     int64
	Description, Ref, Cron string
	Active                 bool
	Variables              map[string]string
}

// Settings are what the project has. Its fields may be set until the first
// request.
type Settings struct {
	Push      *bool // nil: this GitLab does not show it
	NewGroups string
	Groups    map[string]string // process mode by key
	Schedules []Schedule
	Free      bool                // there are no protected environments
	Ignores   bool                // who may not see the project is left out of them silently
	Protected map[string][]string // "user:ada", "group:shop/ops", "role:40" by environment
}

// peopleIDs are who there is besides the roles.
func peopleIDs() map[string]int64 {
	return map[string]int64{"user:ada": 11, "user:bob": 12, "group:shop/ops": 21}
}

// Setup returns the project's settings as they are now.
func (s *Server) Setup() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.Settings
	out.Schedules = slices.Clone(out.Schedules)
	return out
}

// setupEndpoints are what a person sets a project up with.
func setupEndpoints() []endpoint {
	pages := []string{"page", "per_page"}
	projectKeys := []string{"id", "path_with_namespace", "default_branch", "ci_push_repository_for_job_token_allowed", "resource_group_default_process_mode"}
	scheduleKeys := []string{"id", "description", "ref", "cron", "cron_timezone", "next_run_at", "active", "created_at", "updated_at", "owner"}
	extended := append(slices.Clone(scheduleKeys), "last_pipeline", "variables", "inputs")
	variableKeys := []string{"key", "value", "variable_type", "raw"}
	groupKeys := []string{"id", "key", "process_mode", "created_at", "updated_at"}
	protectedKeys := []string{"name", "deploy_access_levels", "required_approval_count", "approval_rules"}
	project := func(rest string) *regexp.Regexp { return regexp.MustCompile(`^/projects/([^/]+)` + rest + `$`) }
	text := func(keys ...string) map[string]string {
		out := map[string]string{}
		for _, key := range keys {
			out[key] = "string"
		}
		return out
	}
	return []endpoint{
		{method: http.MethodGet, path: project(""), named: (*Server).getProject, answer: projectKeys, address: "https://docs.gitlab.com/api/projects/#get-a-single-project"},
		{method: http.MethodPut, path: project(""), named: (*Server).editProject, answer: projectKeys, address: "https://docs.gitlab.com/api/projects/#edit-a-project",
			may: map[string]string{"ci_push_repository_for_job_token_allowed": "bool"}},
		{method: http.MethodGet, path: project("/resource_groups/([^/]+)"), named: (*Server).getGroup, answer: groupKeys, address: "https://docs.gitlab.com/api/resource_groups/#get-a-specific-resource-group"},
		{method: http.MethodPut, path: project("/resource_groups/([^/]+)"), named: (*Server).editGroup, answer: groupKeys, body: text("process_mode"), address: "https://docs.gitlab.com/api/resource_groups/#edit-an-existing-resource-group"},
		{method: http.MethodGet, path: project("/pipeline_schedules"), named: (*Server).listSchedules, query: append([]string{"scope"}, pages...), answer: scheduleKeys, address: "https://docs.gitlab.com/api/pipeline_schedules/#get-all-pipeline-schedules"},
		{method: http.MethodPost, path: project("/pipeline_schedules"), named: (*Server).makeSchedule, answer: extended, body: text("description", "ref", "cron"),
			may: map[string]string{"active": "bool", "cron_timezone": "string"}, address: "https://docs.gitlab.com/api/pipeline_schedules/#create-a-new-pipeline-schedule"},
		{method: http.MethodGet, path: project(`/pipeline_schedules/(\d+)`), named: (*Server).getSchedule, answer: extended, address: "https://docs.gitlab.com/api/pipeline_schedules/#get-a-single-pipeline-schedule"},
		{method: http.MethodPut, path: project(`/pipeline_schedules/(\d+)`), named: (*Server).editSchedule, answer: extended,
			may: map[string]string{"active": "bool", "cron": "string", "ref": "string", "description": "string"}, address: "https://docs.gitlab.com/api/pipeline_schedules/#edit-a-pipeline-schedule"},
		{method: http.MethodPost, path: project(`/pipeline_schedules/(\d+)/variables`), named: (*Server).makeVariable, answer: variableKeys, body: text("key", "value"),
			may: text("variable_type"), address: "https://docs.gitlab.com/api/pipeline_schedules/#create-a-new-pipeline-schedule-variable"},
		{method: http.MethodPut, path: project(`/pipeline_schedules/(\d+/variables/[A-Za-z0-9_]+)`), named: (*Server).editVariable, answer: variableKeys, body: text("value"),
			may: text("variable_type"), address: "https://docs.gitlab.com/api/pipeline_schedules/#edit-a-pipeline-schedule-variable"},
		{method: http.MethodGet, path: project("/protected_environments/([^/]+)"), named: (*Server).getProtected, answer: protectedKeys, address: "https://docs.gitlab.com/api/protected_environments/#get-a-single-protected-environment"},
		{method: http.MethodPost, path: project("/protected_environments"), named: (*Server).protect, answer: protectedKeys, body: map[string]string{"name": "string", "deploy_access_levels": "[]interface {}"},
			may: map[string]string{"required_approval_count": "float64", "approval_rules": "[]interface {}"}, address: "https://docs.gitlab.com/api/protected_environments/#protect-a-single-environment"},
		{method: http.MethodPut, path: project("/protected_environments/([^/]+)"), named: (*Server).editProtected, answer: protectedKeys,
			may: map[string]string{"deploy_access_levels": "[]interface {}"}, address: "https://docs.gitlab.com/api/protected_environments/#update-a-protected-environment"},
		{method: http.MethodGet, path: regexp.MustCompile(`^/users$`), named: (*Server).findUser, query: []string{"username"}, answer: []string{"id", "username", "name", "state"}, address: "https://docs.gitlab.com/api/users/#list-users"},
		{method: http.MethodGet, path: regexp.MustCompile(`^/groups/([^/]+)$`), outside: true, named: (*Server).findGroup, query: []string{"with_projects"}, answer: []string{"id", "full_path", "name"}, address: "https://docs.gitlab.com/api/groups/#get-a-single-group"},
	}
}

func notFound(what string) answer { return refusal(http.StatusNotFound, "404 "+what+" Not Found") }

func (s *Server) getProject(string, url.Values, map[string]any) answer {
	body := map[string]any{"id": int64(Project), "path_with_namespace": Path, "default_branch": "main"}
	if s.Settings.Push != nil {
		body["ci_push_repository_for_job_token_allowed"] = *s.Settings.Push
	}
	if s.Settings.NewGroups != "" {
		body["resource_group_default_process_mode"] = s.Settings.NewGroups
	}
	return answer{status: http.StatusOK, body: body}
}

func (s *Server) editProject(_ string, _ url.Values, body map[string]any) answer {
	if len(body) == 0 {
		return answer{status: http.StatusBadRequest, body: map[string]any{"error": "at least one parameter must be provided"}}
	}
	if value, given := body["ci_push_repository_for_job_token_allowed"].(bool); given && s.Settings.Push != nil {
		s.Settings.Push = &value
	}
	return s.getProject("", nil, nil)
}

func (s *Server) getGroup(key string, _ url.Values, _ map[string]any) answer {
	mode, there := s.Settings.Groups[key]
	if !there {
		return notFound("Resource Group")
	}
	return answer{status: http.StatusOK, body: map[string]any{"id": 3, "key": key, "process_mode": mode, "created_at": s.now(), "updated_at": s.now()}}
}

func (s *Server) editGroup(key string, _ url.Values, body map[string]any) answer {
	mode, _ := body["process_mode"].(string)
	if !slices.Contains([]string{"unordered", "oldest_first", "newest_first", "newest_ready_first"}, mode) {
		return answer{status: http.StatusBadRequest, body: map[string]any{"error": "process_mode does not have a valid value"}}
	}
	if _, there := s.Settings.Groups[key]; there {
		s.Settings.Groups[key] = mode
	}
	return s.getGroup(key, nil, nil)
}

func (c Schedule) json(extended bool) map[string]any {
	out := map[string]any{"id": c.ID, "description": c.Description, "ref": "refs/heads/" + c.Ref, "cron": c.Cron, "cron_timezone": "UTC", "active": c.Active, "owner": user("root")}
	if !extended {
		return out
	}
	variables := []any{}
	for key, value := range c.Variables {
		variables = append(variables, map[string]any{"key": key, "variable_type": "env_var", "value": value, "raw": false})
	}
	out["last_pipeline"], out["variables"] = nil, variables
	return out
}

func (s *Server) listSchedules(string, url.Values, map[string]any) answer {
	list := []any{}
	for _, c := range s.Settings.Schedules {
		list = append(list, c.json(false))
	}
	return answer{status: http.StatusOK, list: list}
}

func (s *Server) schedule(id string) *Schedule {
	n, _ := strconv.ParseInt(id, 10, 64) // digits
	i := slices.IndexFunc(s.Settings.Schedules, func(c Schedule) bool { return c.ID == n })
	if i < 0 {
		return nil
	}
	return &s.Settings.Schedules[i]
}

func (s *Server) getSchedule(id string, _ url.Values, _ map[string]any) answer {
	c := s.schedule(id)
	if c == nil {
		return notFound("Pipeline Schedule")
	}
	return answer{status: http.StatusOK, body: c.json(true)}
}

// set takes what a body says of a schedule.
func (c *Schedule) set(body map[string]any) {
	for key, field := range map[string]*string{"description": &c.Description, "ref": &c.Ref, "cron": &c.Cron} {
		if value, given := body[key].(string); given {
			*field = strings.TrimPrefix(value, "refs/heads/")
		}
	}
	if active, given := body["active"].(bool); given {
		c.Active = active
	}
}

func (s *Server) makeSchedule(_ string, _ url.Values, body map[string]any) answer {
	c := Schedule{ID: int64(len(s.Settings.Schedules) + 13), Active: true}
	c.set(body)
	if len(strings.Fields(c.Cron)) != 5 {
		return refusal(http.StatusBadRequest, map[string]any{"cron": []string{"syntax is invalid"}})
	}
	s.Settings.Schedules = append(s.Settings.Schedules, c)
	return answer{status: http.StatusCreated, body: c.json(true)}
}

func (s *Server) editSchedule(id string, _ url.Values, body map[string]any) answer {
	c := s.schedule(id)
	if c == nil {
		return notFound("Pipeline Schedule")
	}
	c.set(body)
	return answer{status: http.StatusOK, body: c.json(true)}
}

func (s *Server) variable(id, key, value string, there bool) answer {
	c := s.schedule(id)
	if c == nil {
		return notFound("Pipeline Schedule")
	}
	if _, is := c.Variables[key]; is != there {
		if !there {
			return refusal(http.StatusBadRequest, map[string]any{"variables.key": []string{"has already been taken"}})
		}
		return notFound("Variable")
	}
	if c.Variables == nil {
		c.Variables = map[string]string{}
	}
	c.Variables[key] = value
	return answer{status: http.StatusCreated, body: map[string]any{"key": key, "variable_type": "env_var", "value": value, "raw": false}}
}

func (s *Server) makeVariable(id string, _ url.Values, body map[string]any) answer {
	key, _ := body["key"].(string)
	value, _ := body["value"].(string)
	return s.variable(id, key, value, false)
}

func (s *Server) editVariable(place string, _ url.Values, body map[string]any) answer {
	id, key, _ := strings.Cut(place, "/variables/")
	value, _ := body["value"].(string)
	return s.variable(id, key, value, true)
}

func (s *Server) getProtected(name string, _ url.Values, _ map[string]any) answer {
	who, there := s.Settings.Protected[name]
	if !there || s.Settings.Free {
		return notFound("ProtectedEnvironment")
	}
	levels := []any{}
	for i, one := range who {
		kind, id, _ := strings.Cut(one, ":")
		level := map[string]any{"id": i + 1, "access_level": 40, "access_level_description": id, "user_id": nil, "group_id": nil, "group_inheritance_type": 0}
		switch kind {
		case "user", "group":
			level[kind+"_id"] = peopleIDs()[one]
		default:
			level["access_level"], _ = strconv.Atoi(id)
		}
		levels = append(levels, level)
	}
	return answer{status: http.StatusOK, body: map[string]any{"name": name, "deploy_access_levels": levels, "required_approval_count": 0, "approval_rules": []any{}}}
}

// admit adds to an environment; the access levels that have no id are new.
func (s *Server) admit(name string, body map[string]any) answer {
	levels, _ := body["deploy_access_levels"].([]any)
	for _, l := range levels {
		level, _ := l.(map[string]any)
		key := ""
		for attribute, kind := range map[string]string{"user_id": "user", "group_id": "group", "access_level": "role"} {
			id, given := level[attribute].(float64)
			if !given || key != "" || len(level) != 1 {
				continue
			}
			if key = "role:" + strconv.Itoa(int(id)); kind != "role" {
				key = ""
				for one, known := range peopleIDs() {
					if known == int64(id) && strings.HasPrefix(one, kind+":") {
						key = one
					}
				}
			}
		}
		if key == "" || (strings.HasPrefix(key, "role:") && !slices.Contains([]string{"role:30", "role:40", "role:60"}, key)) {
			return refusal(http.StatusUnprocessableEntity, map[string]any{"deploy_access_levels": []string{"is invalid"}})
		}
		if !s.Settings.Ignores || strings.HasPrefix(key, "role:") {
			s.Settings.Protected[name] = append(slices.Clone(s.Settings.Protected[name]), key)
		}
	}
	return s.getProtected(name, nil, nil)
}

func (s *Server) protect(_ string, _ url.Values, body map[string]any) answer {
	name, _ := body["name"].(string)
	_, there := s.Settings.Protected[name]
	switch {
	case s.Settings.Free:
		return notFound("")
	case there:
		return refusal(http.StatusConflict, "Protected environment '"+name+"' already exists")
	case s.Settings.Protected == nil:
		s.Settings.Protected = map[string][]string{}
	}
	s.Settings.Protected[name] = nil
	made := s.admit(name, body)
	if made.status == http.StatusOK {
		made.status = http.StatusCreated
	}
	return made
}

func (s *Server) editProtected(name string, _ url.Values, body map[string]any) answer {
	if _, there := s.Settings.Protected[name]; !there || s.Settings.Free {
		return notFound("ProtectedEnvironment")
	}
	return s.admit(name, body)
}

func (s *Server) findUser(_ string, query url.Values, _ map[string]any) answer {
	list := []any{}
	if id, known := peopleIDs()["user:"+query.Get("username")]; known {
		list = append(list, map[string]any{"id": id, "username": query.Get("username"), "name": "N. N.", "state": "active"})
	}
	return answer{status: http.StatusOK, list: list}
}

func (s *Server) findGroup(path string, _ url.Values, _ map[string]any) answer {
	id, known := peopleIDs()["group:"+path]
	if !known {
		return notFound("Group")
	}
	return answer{status: http.StatusOK, body: map[string]any{"id": id, "full_path": path, "name": path}}
}

// SetupEndpoints are the addresses of what this server knows of a setup.
func SetupEndpoints() []string {
	var out []string
	for _, e := range setupEndpoints() {
		out = append(out, e.address)
	}
	return out
}
