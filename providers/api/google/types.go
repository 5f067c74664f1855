package google

import (
	"encoding/json"

	"github.com/manent/action/providers/api/bearer"
	"github.com/manent/action/providers/httpx"
)

// refusal is how Google refuses. The service of tokens says a code by RFC
// 6749, section 5.2; its APIs, IAM among them, say a structure.
// https://cloud.google.com/apis/design/errors
type refusal struct {
	Error json.RawMessage `json:"error"`
}

// StatusOf is the name of an API's error ("PERMISSION_DENIED"), "" for none.
func StatusOf(body []byte) string {
	var r refusal
	var e struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(body, &r) != nil || json.Unmarshal(r.Error, &e) != nil {
		return ""
	}
	return e.Status
}

func codeOf(body []byte) string {
	var r refusal
	var code string
	if json.Unmarshal(body, &r) != nil || json.Unmarshal(r.Error, &code) != nil {
		return ""
	}
	return code
}

// read explains a refused login.
func read(resp *httpx.Response) bearer.Refusal {
	if StatusOf(resp.Body) != "" {
		return bearer.Refusal{Hint: "does " + accountVar + " exist, and may the job act as it? grant the job's principal roles/iam.workloadIdentityUser on it"}
	}
	switch codeOf(resp.Body) {
	case "invalid_target":
		return bearer.Refusal{Hint: providerVar + " names no provider that there is, or one that is disabled"}
	case "unauthorized_client":
		return bearer.Refusal{Hint: "the attribute condition of the provider does not let this job in: compare it with the claims of the job's token"}
	case "invalid_grant":
		return bearer.Refusal{
			Hint:    "Google does not accept what was shown: with " + providerVar + " compare the provider's issuer and allowed audiences with the job's token; a key may have been withdrawn",
			Expired: true,
		}
	}
	return bearer.Refusal{}
}
