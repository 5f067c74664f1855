package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// Claim makes another manager hold fields of an object ("spec.template"), so
// that an apply of another value is a conflict.
func (f *Fake) Claim(path, manager string, fields ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claims[path] == nil {
		f.claims[path] = map[string]string{}
	}
	for _, field := range fields {
		f.claims[path][field] = manager
	}
}

// apply is a server-side apply: an object that is not there is made, maps are
// merged, everything else is replaced.
func (f *Fake) apply(w http.ResponseWriter, r *http.Request, where place, body []byte) {
	query := r.URL.Query()
	if query.Get("fieldManager") != "manent" || query.Get("fieldValidation") != "Strict" {
		f.t.Errorf("apply %s, want fieldManager=manent and fieldValidation=Strict", r.URL)
	}
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil {
		f.t.Errorf("apply %s: %v", r.URL, err)
	}
	if Path(doc) != r.URL.Path {
		f.t.Errorf("apply of %s to %s", Path(doc), r.URL.Path)
	}
	before := f.objects[r.URL.Path]
	next := map[string]any{}
	if before == nil {
		if f.refusesVerb(w, where, "create") {
			return
		}
	} else {
		next = plain(before)
	}
	if said := f.conflicts(r.URL.Path, before, doc); said != "" && query.Get("force") != "true" {
		refuse(w, http.StatusConflict, "Conflict", said)
		return
	}
	merge(next, doc)
	if err := validObject(before, next); err != nil {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", err.Error())
		return
	}
	f.put(r.URL.Path, before, next)
	reply(w, http.StatusOK, f.objects[r.URL.Path])
}

func (f *Fake) put(path string, before, next map[string]any) {
	if spec, ok := next["spec"].(map[string]any); ok {
		switch next["kind"] {
		case "Deployment", "StatefulSet":
			fill(spec, "replicas", 1.0)
		case "HorizontalPodAutoscaler":
			fill(spec, "minReplicas", 1.0)
		}
	}
	meta := next["metadata"].(map[string]any)
	switch {
	case before == nil:
		meta["generation"] = 1.0
	case !reflect.DeepEqual(before["spec"], next["spec"]):
		meta["generation"] = meta["generation"].(float64) + 1
	}
	f.objects[path] = next
	f.stored(next)
}

// conflicts is what the API server says of fields that others hold.
func (f *Fake) conflicts(path string, before, doc map[string]any) string {
	for field, manager := range f.claims[path] {
		wanted, there := lookup(doc, field)
		has, _ := lookup(before, field)
		if there && !reflect.DeepEqual(wanted, has) {
			return fmt.Sprintf("Apply failed with 1 conflict: conflict with %q using apps/v1: .%s", manager, field)
		}
	}
	return ""
}

func lookup(o map[string]any, field string) (any, bool) {
	var at any = o
	for _, key := range strings.Split(field, ".") {
		m, _ := at.(map[string]any)
		next, ok := m[key]
		if !ok {
			return nil, false
		}
		at = next
	}
	return at, true
}

func merge(into, from map[string]any) {
	for key, value := range from {
		child, isMap := value.(map[string]any)
		has, wasMap := into[key].(map[string]any)
		if isMap && wasMap {
			merge(has, child)
			continue
		}
		into[key] = value
	}
}

// validObject is what the API server refuses of a workload.
func validObject(before, o map[string]any) error {
	if o["kind"] != "Deployment" && o["kind"] != "StatefulSet" {
		return nil
	}
	chosen, _ := lookup(o, "spec.selector.matchLabels")
	labels, _ := lookup(o, "spec.template.metadata.labels")
	for key, value := range chosen.(map[string]any) {
		if has, _ := labels.(map[string]any); has[key] != value {
			return fmt.Errorf("%s is invalid: spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`", o["kind"])
		}
	}
	if was, there := lookup(before, "spec.selector"); there {
		if is, _ := lookup(o, "spec.selector"); !reflect.DeepEqual(was, is) {
			return fmt.Errorf("%s is invalid: spec.selector: Invalid value: field is immutable", o["kind"])
		}
	}
	return nil
}

// scale is the subresource that sets replicas.
func (f *Fake) scale(w http.ResponseWriter, r *http.Request, where place, body []byte) {
	path := strings.TrimSuffix(r.URL.Path, "/scale")
	before := f.objects[path]
	if before == nil {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s.%s %q not found", where.resource, where.group, where.name))
		return
	}
	var wish struct{ Spec struct{ Replicas *float64 } }
	if err := json.Unmarshal(body, &wish); err != nil || wish.Spec.Replicas == nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		f.t.Errorf("scale %s: %s", r.URL, body)
		refuse(w, http.StatusBadRequest, "BadRequest", "no replicas")
		return
	}
	next := plain(before)
	next["spec"].(map[string]any)["replicas"] = *wish.Spec.Replicas
	f.put(path, before, next)
	reply(w, http.StatusOK, map[string]any{"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": next["metadata"], "spec": map[string]any{"replicas": *wish.Spec.Replicas}})
}

// SetReplicas writes a workload's status as its controller would that has seen
// all of it, with so many replicas of its present version available.
func SetReplicas(o map[string]any, available int) {
	o["status"] = map[string]any{
		"observedGeneration": o["metadata"].(map[string]any)["generation"],
		"replicas":           o["spec"].(map[string]any)["replicas"], "updatedReplicas": o["spec"].(map[string]any)["replicas"],
		"readyReplicas": int64(available), "availableReplicas": int64(available),
	}
}
