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
