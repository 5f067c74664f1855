// Package deploy is the deployer within the plugin kubernetes: it applies the
// objects of a slot, sees them ready and scales them. It must not know what
// moves the traffic, nor the plugin's settings.
package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/manent/action/providers"
	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/api/kubernetes/workload"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// name is the plugin's, in errors.
const name = "kubernetes"

var (
	_ plugin.Deployer   = (*Deployer)(nil)
	_ plugin.Ready      = (*Deployer)(nil)
	_ plugin.SlotScaler = (*Deployer)(nil)
)

// Deployer puts manifests into a slot.
type Deployer struct {
	Client    *api.Client
	Dir       string   // the workspace
	Manifests []string // files and folders in it
	Service   string   // the application's
	Namespace string   // "" for the context's own
	Shared    bool     // both slots have one Service
	Force     bool     // take over fields that others hold
}

// Keys of a release's Ref.
const (
	refNamespace = "namespace"
	refApplied   = "applied"   // names of all objects, "Deployment/shop-b Service/shop-b"
	refWorkloads = "workloads" // JSON of []manifest.Workload
	refDigest    = "digest"    // of what was applied, without the data of Secrets
)

// Deploy implements plugin.Deployer. It deletes nothing. Entered again it
// applies the same objects.
func (d *Deployer) Deploy(ctx context.Context, call plugin.Call) (state.Release, error) {
	set, namespace, err := d.render(call)
	if err != nil {
		return state.Release{}, err
	}
	for _, step := range []func(context.Context, plugin.Call, manifest.Set, string) error{d.stopFormer, d.applyAll, d.sizeAll} {
		if err := step(ctx, call, set, namespace); err != nil {
			return state.Release{}, err
		}
	}
	workloads, err := json.Marshal(set.Workloads)
	if err != nil {
		return state.Release{}, invalid("manifests", err, "")
	}
	var applied []string
	for _, o := range set.Objects {
		applied = append(applied, o.String())
	}
	ref := maps.Clone(call.Release.Ref)
	if ref == nil {
		ref = state.Ref{}
	}
	ref[refNamespace], ref[refApplied] = namespace, strings.Join(applied, " ")
	ref[refWorkloads], ref[refDigest] = string(workloads), set.Digest
	return state.Release{Version: call.Release.Version, Ref: ref}, nil
}

// render makes the slot's objects.
func (d *Deployer) render(call plugin.Call) (manifest.Set, string, error) {
	namespace, err := d.namespace()
	if err != nil {
		return manifest.Set{}, "", err
	}
	docs, err := manifest.Read(d.Dir, d.Manifests)
	if err != nil {
		return manifest.Set{}, "", invalid("manifests", err, "")
	}
	values := map[string]string{
		"slot": string(call.Slot), "track": string(call.Slot), "service": d.Service, "version": call.Release.Version,
		"project": call.Vars["MANENT_PROJECT"], "application": call.Vars["MANENT_APPLICATION"], "environment": call.Vars["MANENT_ENVIRONMENT"],
	}
	set, err := manifest.Render(docs, manifest.Options{
		Slot: string(call.Slot), Service: d.Service, Namespace: namespace, Shared: d.Shared, Values: values,
	})
	if err != nil {
		return manifest.Set{}, "", invalid("manifests", err, "")
	}
	return set, namespace, nil
}

func (d *Deployer) namespace() (string, error) {
	if d.Namespace != "" {
		return d.Namespace, nil
	}
	return d.Client.Namespace()
}

func invalid(op string, err error, hint string) error {
	return &providers.Fault{Provider: name, Op: op, Kind: providers.Invalid, Err: err, Hint: hint}
}

// say prints a line of the deployment.
func say(call plugin.Call, format string, args ...any) {
	if call.Output != nil {
		call.Output(fmt.Sprintf(format, args...))
	}
}

// stopFormer scales down what the slot's former release had and this one has
// not: its pods carry the labels that the slot's Service chooses by. A scaler
// that is left would go on scaling what this release has: it stops the step.
func (d *Deployer) stopFormer(ctx context.Context, call plugin.Call, set manifest.Set, namespace string) error {
	for _, kind := range []string{scalerKind, "Deployment", "StatefulSet"} {
		left, err := d.left(ctx, call, set, kind, namespace)
		if err != nil {
			return err
		}
		for _, name := range left {
			w := manifest.Workload{Kind: kind, Name: name}
			if kind == scalerKind {
				return invalid("deploy", fmt.Errorf("%s of the slot's former release is there, and would scale this one too", w), "delete it, or put it into the manifests")
			}
			if err := d.Client.Scale(ctx, at(kind, namespace, name), 0); err != nil {
				return err
			}
			say(call, "scaled %s to 0: version %s does not have it; delete it when it is not needed any more", w, call.Release.Version)
		}
	}
	return nil
}

// left are the slot's objects of a kind that are not of this release, and at
// work.
func (d *Deployer) left(ctx context.Context, call plugin.Call, set manifest.Set, kind, namespace string) ([]string, error) {
	keep := map[string]bool{}
	for _, o := range set.Objects {
		keep[o.String()] = true
	}
	var out []string
	k, _ := manifest.KindOf(kind)
	selector := fmt.Sprintf("%s=%s,%s=%s", manifest.LabelService, d.Service, manifest.LabelTrack, call.Slot)
	err := d.Client.List(ctx, k.GroupVersionResource, namespace, selector, func(o *unstructured.Unstructured) bool {
		if !keep[kind+"/"+o.GetName()] && (k.Group != "apps" || workload.Replicas(o) > 0) {
			out = append(out, o.GetName())
		}
		return true
	})
	return out, err
}

func (d *Deployer) applyAll(ctx context.Context, call plugin.Call, set manifest.Set, namespace string) error {
	for _, o := range set.Objects {
		ref := at(o.Kind.Name, namespace, o.Name)
		if o.Shared {
			_, err := d.Client.Get(ctx, ref)
			if err == nil {
				say(call, "%s is there and left as it is: it is for both slots", o)
				continue
			}
			if providers.KindOf(err) != providers.NotFound {
				return err
			}
		}
		if _, err := d.Client.Apply(ctx, ref, &unstructured.Unstructured{Object: o.Doc}, d.Force); err != nil {
			return refused(err)
		}
		say(call, "applied %s", o)
	}
	return nil
}

// refused: a field that somebody else holds with another value is for a person
// to decide; trying again would not help.
func refused(err error) error {
	if !providers.IsConflict(err) || !strings.Contains(err.Error(), "conflict with ") {
		return err
	}
	return &providers.Fault{
		Kind: providers.Invalid, Err: err,
		Hint: "let the other one leave these fields alone, take them out of the manifests, or take them over with the setting force_conflicts: true",
	}
}

// at names an object of a kind that manifests can have.
func at(kind, namespace, name string) api.Ref {
	k, _ := manifest.KindOf(kind)
	return api.Ref{GroupVersionResource: k.GroupVersionResource, Namespace: namespace, Name: name}
}
