package kubetest

import (
	"encoding/json"
	"net/http"
)

// review answers whether something would be allowed, from what is denied.
func (f *Fake) review(w http.ResponseWriter, r *http.Request, body []byte) {
	var question struct {
		Kind string
		Spec struct {
			ResourceAttributes struct{ Namespace, Group, Resource, Subresource, Verb, Name string }
		}
	}
	err := json.Unmarshal(body, &question)
	a := question.Spec.ResourceAttributes
	if err != nil || r.Method != http.MethodPost || question.Kind != "SelfSubjectAccessReview" || a.Namespace == "" || a.Resource == "" || a.Verb == "" {
		f.t.Errorf("%s %s with %s (%v), want a SelfSubjectAccessReview about a namespace", r.Method, r.URL, body, err)
	}
	if a.Subresource != "" {
		a.Resource += "/" + a.Subresource
	}
	reply(w, http.StatusCreated, map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": map[string]any{},
		"status": map[string]any{"allowed": f.denied == nil || !f.denied(a.Verb, a.Resource)},
	})
}
