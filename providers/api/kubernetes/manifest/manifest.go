// Package manifest makes the objects of one slot out of a user's manifests:
// names with the slot's suffix, the label that tells the slots apart, and
// references between the objects that follow. It must not talk to a cluster,
// nor know when or why a slot gets objects.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels and annotations of what manent applies. LabelTrack is on the pods too
// and tells the slots apart; LabelService says whose objects they are.
const (
	LabelTrack    = "manent.io/track"
	LabelService  = "manent.io/service"
	NoteVersion   = "manent.io/version"
	NoteConfig    = "manent.io/config" // of a pod template: another one when a ConfigMap or Secret of the manifests is
	maxNameLength = 253
)

// Kind is one that a slot can have objects of.
type Kind struct {
	schema.GroupVersionResource
	Name string
}

// Kinds are in the order in which objects are applied: what pods read comes
// before the pods, and what scales them after. All belong to a namespace.
func Kinds() []Kind {
	of := func(group, version, resource, name string) Kind {
		return Kind{schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, name}
	}
	return []Kind{
		of("", "v1", "configmaps", "ConfigMap"),
		of("", "v1", "secrets", "Secret"),
		of("", "v1", "services", "Service"),
		of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
		of("apps", "v1", "deployments", "Deployment"),
		of("apps", "v1", "statefulsets", "StatefulSet"),
		of("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
	}
}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Named reports whether an object can have the name.
func Named(name string) bool { return len(name) <= maxNameLength && validName.MatchString(name) }

func (k Kind) workload() bool { return k.Group == "apps" }

// Object is one to be applied.
type Object struct {
	Kind   Kind
	Name   string
	Doc    map[string]any
	Shared bool // both slots use it: made if it is missing, never changed

	source  string
	slotted bool // its name had the slot in it before
}

// String is "Deployment/shop-b".
func (o Object) String() string { return o.Kind.Name + "/" + o.Name }

// Workload is an object with replicas.
type Workload struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`         // for the whole traffic
	Scaler   string `json:"scaler,omitempty"` // its HorizontalPodAutoscaler
}

// String is "Deployment/shop-b".
func (w Workload) String() string { return w.Kind + "/" + w.Name }

// Set is what a slot consists of.
type Set struct {
	Objects   []Object // in the order in which to apply them; without replicas
	Workloads []Workload
	Digest    string // of all objects, but for the data of Secrets
}

// Options say what the objects are for.
type Options struct {
	Slot      string // a or b
	Service   string // the application's Service, which says whose objects they are
	Namespace string
	Shared    bool              // Services are for both slots (Istio)
	Values    map[string]string // of the placeholders; Value gives their names
}

// Placeholders are the names that may be in braces in any text of a manifest.
func Placeholders() []string {
	return []string{"application", "environment", "project", "service", "slot", "track", "version"}
}

// Render makes the objects of a slot.
func Render(docs []Document, o Options) (Set, error) {
	objects, err := o.objects(docs)
	if err != nil {
		return Set{}, err
	}
	names := o.rename(objects)
	for i := range objects {
		if err := o.fit(&objects[i], names); err != nil {
			return Set{}, fmt.Errorf("%s: %s: %w", objects[i].source, objects[i], err)
		}
	}
	workloads, err := takeReplicas(objects)
	if err != nil {
		return Set{}, err
	}
	noteConfig(objects)
	out := Set{Objects: objects, Workloads: workloads}
	out.Digest, err = digest(objects, false)
	return out, err
}

// objects reads what the documents are, in the order to apply them.
func (o Options) objects(docs []Document) ([]Object, error) {
	var out []Object
	seen := map[string]string{}
	for _, d := range docs {
		one, err := o.object(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, err)
		}
		if before, twice := seen[one.String()]; twice {
			return nil, fmt.Errorf("%s: %s is in %s too", d.Source, one, before)
		}
		seen[one.String()] = d.Source
		out = append(out, one)
	}
	order := Kinds()
	slices.SortStableFunc(out, func(a, b Object) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	return out, nil
}

func (o Options) object(d Document) (Object, error) {
	version, _ := d.Body["apiVersion"].(string)
	kindName, _ := d.Body["kind"].(string)
	kind, err := known(version, kindName)
	if err != nil {
		return Object{}, err
	}
	meta, ok := d.Body["metadata"].(map[string]any)
	if !ok {
		return Object{}, fmt.Errorf("%s has no metadata", kindName)
	}
	given, _ := meta["name"].(string)
	body := expand(d.Body, o.Values).(map[string]any)
	meta = body["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if !Named(name) {
		return Object{}, fmt.Errorf("%s has the name %q, expected letters, digits, dashes and dots", kindName, name)
	}
	if ns, there := meta["namespace"]; there && ns != o.Namespace {
		return Object{}, fmt.Errorf("%s/%s is of namespace %v, expected %s: leave it out, or change the setting namespace", kindName, name, ns, o.Namespace)
	}
	for _, key := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(meta, key) // the API server's own
	}
	delete(body, "status")
	return Object{
		Kind: kind, Name: name, Doc: body, Shared: o.Shared && kind.Name == "Service", source: d.Source,
		slotted: strings.Contains(given, "{slot}") || strings.Contains(given, "{track}"),
	}, nil
}

// known refuses what a slot cannot have, with the reason.
func known(version, name string) (Kind, error) {
	kind, ok := KindOf(name)
	switch {
	case name == "" || version == "":
		return Kind{}, errors.New("no apiVersion or no kind, expected an object of Kubernetes")
	case ok && kind.GroupVersion().String() == version:
		return kind, nil
	case ok:
		return Kind{}, fmt.Errorf("%s of apiVersion %q, expected %s", name, version, kind.GroupVersion())
	case slices.Contains([]string{"HTTPRoute", "VirtualService", "DestinationRule", "Gateway", "Ingress"}, name):
		return Kind{}, fmt.Errorf("%s belongs to the traffic of both slots, and a slot that applied it would move that: apply it beforehand, by itself", name)
	}
	names := make([]string, 0, len(Kinds()))
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("kind %q, expected one of %s: what both slots share, and what belongs to the whole cluster, is applied beforehand, by itself", name, strings.Join(names, ", "))
}

// digest is of the objects as they are applied. What is secret is left out
// where the digest is kept.
func digest(objects []Object, secrets bool) (string, error) {
	all := sha256.New()
	for _, o := range objects {
		doc := o.Doc
		if o.Kind.Name == "Secret" && !secrets {
			doc = map[string]any{"metadata": o.Doc["metadata"]}
		}
		data, err := json.Marshal(doc) // members in the order of their names
		if err != nil {
			return "", err
		}
		_, _ = all.Write(append(data, '\n')) // a hash never fails
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}
