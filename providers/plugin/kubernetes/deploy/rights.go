package deploy

import (
	"slices"

	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// Grants are the rights that the deployer needs on the manifests' objects, as
// rules of a Role, and the namespace. Where names change with the version, a
// rule is for all objects of its kind.
func (d *Deployer) Grants() (grants []api.Grant, namespace string, err error) {
	names, namespace, err := d.names("1")
	if err != nil {
		return nil, "", err
	}
	others, _, err := d.names("2")
	if err != nil {
		return nil, "", err
	}
	for _, k := range manifest.Kinds() {
		if len(names[k.Name]) == 0 {
			continue
		}
		for _, g := range d.needs(k) {
			if g.Group = k.Group; slices.Equal(names[k.Name], others[k.Name]) {
				g.Names = names[k.Name]
			}
			grants = append(grants, g)
		}
	}
	for _, kind := range []string{scalerKind, "Deployment", "StatefulSet"} { // of a former release
		k, _ := manifest.KindOf(kind)
		grants = append(grants, api.Grant{Group: k.Group, Resource: k.Resource, Verbs: []string{"list"}})
	}
	return append(grants, api.Grant{Resource: "pods", Verbs: []string{"list"}, Spare: true}), namespace, nil
}

// needs are the verbs for a kind, and for its scale.
func (d *Deployer) needs(k manifest.Kind) []api.Grant {
	all := api.Grant{Resource: k.Resource, Verbs: []string{"get", "create", "patch"}}
	switch {
	case k.Group == "apps":
		return []api.Grant{all, {Resource: k.Resource + "/scale", Verbs: []string{"patch"}}}
	case k.Name == scalerKind, k.Name == "Service" && d.Shared:
		return []api.Grant{all}
	}
	return []api.Grant{{Resource: k.Resource, Verbs: []string{"create", "patch"}}}
}

// names are those of both slots' objects, by kind.
func (d *Deployer) names(version string) (map[string][]string, string, error) {
	out := map[string][]string{}
	objects, namespace, err := d.Objects(version)
	for _, o := range objects {
		if !slices.Contains(out[o.Kind.Name], o.Name) {
			out[o.Kind.Name] = append(out[o.Kind.Name], o.Name)
		}
	}
	return out, namespace, err
}

// Objects are what the deployment of a version makes, in both slots.
func (d *Deployer) Objects(version string) (all []manifest.Object, namespace string, err error) {
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		set, ns, err := d.render(plugin.Call{Slot: slot, Release: state.Release{Version: version}, Vars: map[string]string{
			"MANENT_PROJECT": "p", "MANENT_APPLICATION": "a", "MANENT_ENVIRONMENT": "e",
		}})
		if err != nil {
			return nil, "", err
		}
		all, namespace = append(all, set.Objects...), ns
	}
	return all, namespace, nil
}
