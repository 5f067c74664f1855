package deploy

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/manent/action/providers/api/kubernetes"
	"github.com/manent/action/providers/api/kubernetes/manifest"
	"github.com/manent/action/providers/plugin"
	"github.com/manent/action/state"
)

// Rules are the rights that the deployer needs on the manifests' objects, as
// rules of a Role, and the namespace. Where names change with the version, a
// rule is for all objects of its kind.
func (d *Deployer) Rules() (rules []string, namespace string, err error) {
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
		only := ""
		if slices.Equal(names[k.Name], others[k.Name]) {
			only = fmt.Sprintf(", resourceNames: [%s]}", strings.Join(names[k.Name], ", "))
		}
		for _, needs := range d.needs(k) {
			rule := api.Rule(k.Group, needs[0], needs[1:]...)
			if only != "" {
				rule = strings.TrimSuffix(rule, "}") + only
			}
			rules = append(rules, rule)
		}
	}
	for _, kind := range []string{scalerKind, "Deployment", "StatefulSet"} { // of a former release
		k, _ := manifest.KindOf(kind)
		rules = append(rules, api.Rule(k.Group, k.Resource, "list"))
	}
	return append(rules, api.Rule("", "pods", "list")), namespace, nil
}

// needs are resources with the verbs for them.
func (d *Deployer) needs(k manifest.Kind) [][]string {
	switch k.Name {
	case "Deployment", "StatefulSet":
		return [][]string{{k.Resource, "get", "create", "patch"}, {k.Resource + "/scale", "patch"}}
	case scalerKind:
		return [][]string{{k.Resource, "get", "create", "patch"}}
	case "Service":
		if d.Shared {
			return [][]string{{k.Resource, "get", "create", "patch"}}
		}
	}
	return [][]string{{k.Resource, "create", "patch"}}
}

// names are those of both slots' objects, by kind.
func (d *Deployer) names(version string) (map[string][]string, string, error) {
	out := map[string][]string{}
	var namespace string
	for _, slot := range []state.Slot{state.SlotA, state.SlotB} {
		set, ns, err := d.render(plugin.Call{Slot: slot, Release: state.Release{Version: version}, Vars: map[string]string{
			"MANENT_PROJECT": "p", "MANENT_APPLICATION": "a", "MANENT_ENVIRONMENT": "e",
		}})
		if err != nil {
			return nil, "", err
		}
		namespace = ns
		for _, o := range set.Objects {
			if !slices.Contains(out[o.Kind.Name], o.Name) {
				out[o.Kind.Name] = append(out[o.Kind.Name], o.Name)
			}
		}
	}
	return out, namespace, nil
}
