package gitlab

// Approval is what one person said about a deployment.
type Approval struct {
	Who     string // login name
	Status  string // approved or rejected
	Comment string
}

// approvals is what a deployment says beyond the library's type,
// https://docs.gitlab.com/api/deployments/#get-a-specific-deployment.
type approvals struct {
	ID        int64      `json:"id"`
	Waiting   int        `json:"pending_approval_count"`
	Approvals []approval `json:"approvals"`
	Summary   struct {
		Rules []struct {
			Approvals []approval `json:"deployment_approvals"`
		} `json:"rules"`
	} `json:"approval_summary"`
}

type approval struct {
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Status  string `json:"status"`
	Comment string `json:"comment"`
}

// project is what is read of a project. Its booleans are not the library's: one
// that an older GitLab does not know is not false.
type project struct {
	ID        int64  `json:"id"`
	Branch    string `json:"default_branch"`
	Push      *bool  `json:"ci_push_repository_for_job_token_allowed"`
	NewGroups string `json:"resource_group_default_process_mode"`
}

// protection is what a protected environment is told; Name only for a new one.
type protection struct {
	Name string  `json:"name,omitempty"`
	Who  []level `json:"deploy_access_levels"`
}

type level struct {
	User  int64 `json:"user_id,omitempty"`
	Group int64 `json:"group_id,omitempty"`
	Level int64 `json:"access_level,omitempty"`
}

func levels(who []Access) []level {
	out := make([]level, len(who))
	for i, a := range who {
		out[i] = level(a)
	}
	return out
}
