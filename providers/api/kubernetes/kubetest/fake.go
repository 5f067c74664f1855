// Package kubetest is a Kubernetes API for tests: Fake, in the test's own
// process, does with the objects that manent needs what the real API server
// was seen to do, and refuses what it refuses; Cluster, behind the build tag
// peers, is the real one. It must not be used outside of tests.
package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Token is what the fake takes.
const Token = "hush-hush-token" //nolint:gosec // of a server in the test's own process

// Fake is an API server in memory. It has a controller that accepts a route as
// soon as it changes, and one that brings up every replica at once, unless
// held.
type Fake struct {
	t testing.TB

	mu       sync.Mutex
	objects  map[string]map[string]any // by path
	revision int
	held     bool
	silent   bool // the controller writes no status at all
	writes   int
	patches  int
	denied   func(verb, resource string) bool
	groups   map[string][]string // versions served by API group
	mutate   func(map[string]any)
	claims   map[string]map[string]string // manager by field, by path of the object
}

// NewFake returns a server that has these objects.
func NewFake(t testing.TB, objects ...map[string]any) *Fake {
	f := &Fake{t: t, objects: map[string]map[string]any{}, claims: map[string]map[string]string{}, groups: map[string][]string{
		"gateway.networking.k8s.io": {"v1", "v1beta1"}, "networking.istio.io": {"v1", "v1beta1", "v1alpha3"},
	}}
	for _, o := range objects {
		f.Create(o)
	}
	return f
}

// Path is where an object is served.
func Path(o map[string]any) string {
	meta := o["metadata"].(map[string]any)
	version, kind := o["apiVersion"].(string), strings.ToLower(o["kind"].(string))+"s"
	root := "/apis/" + version
	if !strings.Contains(version, "/") {
		root = "/api/" + version
	}
	if ns, ok := meta["namespace"].(string); ok {
		root += "/namespaces/" + ns
	}
	return root + "/" + kind + "/" + meta["name"].(string)
}

// Create puts an object there, as kubectl would.
func (f *Fake) Create(o map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o = plain(o)
	meta := o["metadata"].(map[string]any)
	meta["generation"], meta["uid"] = 1.0, fmt.Sprintf("uid-%d", f.revision)
	f.defaults(o)
	f.owned(o, "kubectl")
	f.objects[Path(o)] = o
	f.stored(o)
}

// Delete takes an object away.
func (f *Fake) Delete(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, path)
}

// Edit changes an object, as somebody else under the name of a manager.
func (f *Fake) Edit(path, manager string, change func(o map[string]any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := plain(f.objects[path])
	change(next)
	f.replace(path, plain(next), manager)
}

// Status changes an object's status, as its controller would.
func (f *Fake) Status(path string, change func(o map[string]any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.objects[path])
}

// Object is a copy of an object, nil when it is not there.
func (f *Fake) Object(path string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.objects[path] == nil {
		return nil
	}
	return plain(f.objects[path])
}

// Touch makes the controller write every route's status again.
func (f *Fake) Touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.objects {
		f.stored(o)
	}
}

// Hold keeps the controller from looking until release.
func (f *Fake) Hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = true
	return func() {
		f.mu.Lock()
		f.held = false
		f.mu.Unlock()
		f.Touch()
	}
}

// Silence makes the controller one that never reports.
func (f *Fake) Silence() { f.set(func() { f.silent = true }) }

// Serve sets the versions of an API group, none for a group that is not
// installed.
func (f *Fake) Serve(group string, versions ...string) { f.set(func() { f.groups[group] = versions }) }

// Deny sets what the token's owner may not do.
func (f *Fake) Deny(denied func(verb, resource string) bool) { f.set(func() { f.denied = denied }) }

// Mutate sets what an admission webhook does to every patch.
func (f *Fake) Mutate(change func(map[string]any)) { f.set(func() { f.mutate = change }) }

func (f *Fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Writes counts the accepted patches that changed a weight outside the
// testers' entries; Patches all that were accepted.
func (f *Fake) Writes() int { f.mu.Lock(); defer f.mu.Unlock(); return f.writes }

// Patches counts the patches that were accepted.
func (f *Fake) Patches() int { f.mu.Lock(); defer f.mu.Unlock(); return f.patches }

// IsWrite says whether a request changes something.
func IsWrite(r *http.Request) bool { return r.Method != http.MethodGet }

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+Token {
		refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		return
	}
	where := target(r.URL.Path)
	switch {
	case where.resource == "":
		f.discover(w, r)
	case f.refusesVerb(w, where, where.verb(r)):
	case where.resource == "selfsubjectaccessreviews":
		f.review(w, r, body)
	case strings.Contains(r.Header.Get("Content-Type"), "apply-patch"):
		f.apply(w, r, where, body)
	case r.Method == http.MethodGet && where.name == "":
		f.list(w, r)
	case where.sub == "scale":
		f.scale(w, r, where, body)
	case f.objects[r.URL.Path] == nil:
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s.%s %q not found", where.resource, where.group, where.name))
	case r.Method == http.MethodGet:
		reply(w, http.StatusOK, f.objects[r.URL.Path])
	case r.Method == http.MethodPatch:
		f.patch(w, r, body)
	default:
		f.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

// refusesVerb answers for what the token's owner may not do.
func (f *Fake) refusesVerb(w http.ResponseWriter, where place, verb string) bool {
	resource := strings.TrimSuffix(where.resource+"/"+where.sub, "/")
	if f.denied == nil || !f.denied(verb, resource) {
		return false
	}
	refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("%s.%s %q is forbidden: User \"ci\" cannot %s resource %q in API group %q in the namespace %q",
		where.resource, where.group, where.name, verb, resource, where.group, where.namespace))
	return true
}

type place struct{ group, namespace, resource, name, sub string }

func (p place) verb(r *http.Request) string {
	switch {
	case r.Method == http.MethodPatch:
		return "patch"
	case r.Method == http.MethodPost:
		return "create"
	case p.name == "":
		return "list"
	}
	return "get"
}

// target takes a path apart: /api/v1/… or /apis/GROUP/VERSION/…, namespaces/NS,
// resource, name, subresource.
func target(path string) place {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var p place
	if parts[0] == "apis" && len(parts) > 1 {
		p.group, parts = parts[1], parts[1:]
	}
	parts = parts[min(2, len(parts)):]
	if len(parts) > 1 && parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		p.resource = parts[0]
	}
	if len(parts) > 1 {
		p.name = parts[1]
	}
	if len(parts) > 2 {
		p.sub = parts[2]
	}
	return p
}

// discover answers /version and /apis. The real one has a 404 of plain text for the path of
// a group that it does not serve, which could be anybody's, so that manent must
// not ask there.
func (f *Fake) discover(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		reply(w, http.StatusOK, map[string]any{"major": "1", "minor": "34", "gitVersion": "v1.34.0-fake"})
		return
	}
	if r.URL.Path != "/apis" {
		f.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	groups := []any{}
	for group, served := range f.groups {
		var versions []any
		for _, v := range served {
			versions = append(versions, map[string]any{"groupVersion": group + "/" + v, "version": v})
		}
		if len(versions) > 0 {
			groups = append(groups, map[string]any{"name": group, "versions": versions})
		}
	}
	reply(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

func (f *Fake) list(w http.ResponseWriter, r *http.Request) {
	routes := strings.HasSuffix(r.URL.Path, "/httproutes") || strings.HasSuffix(r.URL.Path, "/virtualservices")
	if r.URL.Query().Get("limit") == "" || r.URL.Query().Get("labelSelector") == "" != routes {
		f.t.Errorf("list %s, want a limit and, but for routes, a label selector", r.URL)
	}
	var items []any
	for path, o := range f.objects {
		labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
		if path[:strings.LastIndex(path, "/")] == r.URL.Path && selected(labels, r.URL.Query().Get("labelSelector")) {
			items = append(items, o)
		}
	}
	first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(Path(a.(map[string]any)), Path(b.(map[string]any))) })
	meta := map[string]any{}
	items = items[min(first, len(items)):]
	if len(items) > limit {
		items, meta["continue"] = items[:limit], strconv.Itoa(first+limit)
	}
	reply(w, http.StatusOK, map[string]any{"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items})
}

func selected(labels map[string]any, selector string) bool {
	for _, term := range strings.Split(selector, ",") {
		key, value, _ := strings.Cut(term, "=")
		if term != "" && labels[key] != value {
			return false
		}
	}
	return true
}

// patch takes what manent sends, and checks how it does.
func (f *Fake) patch(w http.ResponseWriter, r *http.Request, body []byte) {
	query := r.URL.Query()
	if query.Get("fieldManager") != "manent" || query.Get("fieldValidation") != "Strict" {
		f.t.Errorf("patch %s, want fieldManager=manent and fieldValidation=Strict", r.URL)
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/json-patch+json" {
		f.t.Errorf("patch with Content-Type %q, want a JSON patch", kind)
	}
	next, failed := Apply(f.objects[r.URL.Path], body)
	if failed == nil {
		if f.mutate != nil {
			f.mutate(next)
		}
		f.defaults(next)
		failed = valid(next)
	}
	if failed != nil {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "the server rejected our request due to an error in our request: "+failed.Error())
		return
	}
	f.patches++
	f.replace(r.URL.Path, next, "manent")
	reply(w, http.StatusOK, f.objects[r.URL.Path])
}

// replace stores an object: the generation counts changes of the spec, the
// revision all.
func (f *Fake) replace(path string, next map[string]any, manager string) {
	before := f.objects[path]
	if reflect.DeepEqual(before["spec"], next["spec"]) {
		return
	}
	if manager == "manent" && weights(before) != weights(next) {
		f.writes++
	}
	meta := next["metadata"].(map[string]any)
	meta["generation"] = meta["generation"].(float64) + 1
	f.owned(next, manager)
	f.objects[path] = next
	f.stored(next)
}

// stored gives an object its next revision, and then the controller's word.
func (f *Fake) stored(o map[string]any) {
	f.revision++
	meta := o["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.Itoa(f.revision)
	if (o["kind"] == "Deployment" || o["kind"] == "StatefulSet") && !f.held {
		replicas, _ := o["spec"].(map[string]any)["replicas"].(float64)
		SetReplicas(o, int(replicas))
	}
	if o["kind"] != "HTTPRoute" || f.held || f.silent {
		return
	}
	SetStatus(o, "Accepted", "True", "Accepted", meta["generation"].(float64))
	SetStatus(o, "ResolvedRefs", "True", "ResolvedRefs", meta["generation"].(float64))
	f.revision++
	meta["resourceVersion"] = strconv.Itoa(f.revision)
}

// owned records the manager of the list of rules, which is atomic: the last
// who changes it holds all of it.
func (f *Fake) owned(o map[string]any, manager string) {
	now := time.Now().UTC().Format(time.RFC3339)
	o["metadata"].(map[string]any)["managedFields"] = []any{
		map[string]any{"manager": "controller", "operation": "Update", "subresource": "status", "time": now, "fieldsV1": map[string]any{"f:status": map[string]any{}}},
		map[string]any{"manager": manager, "operation": "Update", "time": now, "fieldsV1": map[string]any{"f:spec": map[string]any{"f:rules": map[string]any{}, "f:http": map[string]any{}}}},
	}
}

func plain(o map[string]any) map[string]any {
	data, err := json.Marshal(o)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Refuse answers with a Status, as http.Error would with text.
func Refuse(w http.ResponseWriter, message string, code int) {
	refuse(w, code, strings.ReplaceAll(http.StatusText(code), " ", ""), message)
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}
