package manifest

import (
	"errors"
	"fmt"
	"math"
)

// names are the new names of objects, by "Kind/old name".
type names map[string]string

// rename gives each object the name that it has in the slot.
func (o Options) rename(objects []Object) names {
	out := names{}
	for i := range objects {
		one := &objects[i]
		old := one.String()
		if !one.slotted && !one.Shared {
			one.Name += "-" + o.Slot
		}
		out[old] = one.Name
	}
	return out
}

// fit makes an object one of the slot.
func (o Options) fit(one *Object, names names) error {
	meta := one.Doc["metadata"].(map[string]any)
	meta["name"], meta["namespace"] = one.Name, o.Namespace
	labels, err := branch(meta, "labels")
	if err != nil {
		return err
	}
	labels[LabelService] = o.Service
	if one.Shared {
		return nil
	}
	notes, err := branch(meta, "annotations")
	if err != nil {
		return err
	}
	notes[NoteVersion] = o.Values["version"]
	if err := o.track(labels); err != nil {
		return err
	}
	return o.fitSpec(one, names)
}

// fitSpec labels what chooses pods and what becomes pods.
func (o Options) fitSpec(one *Object, names names) error {
	spec, _ := one.Doc["spec"].(map[string]any)
	switch {
	case one.Kind.Name == "ConfigMap" || one.Kind.Name == "Secret":
		return nil
	case spec == nil:
		return errors.New("there is no spec")
	case one.Kind.Name == "Service":
		return o.choose(spec, "selector")
	case one.Kind.Name == "PodDisruptionBudget":
		return o.choose(spec, "selector", "matchLabels")
	case one.Kind.workload():
		return o.fitWorkload(spec, names)
	}
	target, _ := spec["scaleTargetRef"].(map[string]any)
	kind, _ := target["kind"].(string)
	name, _ := target["name"].(string)
	if k, ok := KindOf(kind); !ok || !k.workload() || names[kind+"/"+name] == "" {
		return fmt.Errorf("scaleTargetRef %s/%s is no Deployment or StatefulSet of the manifests", kind, name)
	}
	target["name"] = names[kind+"/"+name]
	return nil
}

func (o Options) fitWorkload(spec map[string]any, names names) error {
	if paused, _ := spec["paused"].(bool); paused {
		return errors.New("paused: true, nothing would come of it")
	}
	update, _ := spec["updateStrategy"].(map[string]any)
	rolling, _ := update["rollingUpdate"].(map[string]any)
	if partition, there := rolling["partition"]; update["type"] == "OnDelete" || there && partition != int64(0) {
		return errors.New("its updateStrategy leaves pods of the former version, expected RollingUpdate without partition")
	}
	if err := o.choose(spec, "selector", "matchLabels"); err != nil {
		return err
	}
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	if pod == nil {
		return errors.New("there is no spec.template.spec")
	}
	meta, err := branch(template, "metadata")
	if err != nil {
		return err
	}
	labels, err := branch(meta, "labels")
	if err != nil {
		return err
	}
	if err := o.track(labels); err != nil {
		return err
	}
	if service, ok := spec["serviceName"].(string); ok && names["Service/"+service] != "" {
		spec["serviceName"] = names["Service/"+service]
	}
	refer(pod, names)
	return nil
}

// choose adds the slot to a selector, which must choose by something else too:
// the slot alone would be the pods of every application.
func (o Options) choose(spec map[string]any, path ...string) error {
	at := spec
	for _, key := range path {
		at, _ = at[key].(map[string]any)
	}
	if len(at) == 0 || len(at) == 1 && at[LabelTrack] != nil {
		return fmt.Errorf("spec.%v chooses no pods of its own, expected labels of the application", joined(path))
	}
	return o.track(at)
}

func joined(path []string) string {
	out := path[0]
	for _, p := range path[1:] {
		out += "." + p
	}
	return out
}

// track sets the label of the slot.
func (o Options) track(labels map[string]any) error {
	if has, there := labels[LabelTrack]; there && has != o.Slot {
		return fmt.Errorf("label %s is %v, expected it to be left out, or {track}", LabelTrack, has)
	}
	labels[LabelTrack] = o.Slot
	return nil
}

// branch is a map in a map, made if it is not there.
func branch(parent map[string]any, key string) (map[string]any, error) {
	if parent[key] == nil {
		parent[key] = map[string]any{}
	}
	child, ok := parent[key].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is %v, expected a map", key, parent[key])
	}
	return child, nil
}

// refer lets a pod's references follow the new names: of ConfigMaps and
// Secrets, wherever a pod can name one. Others are not of the manifests, and
// stay. The keys are those of the Kubernetes API, core/v1 PodSpec.
func refer(v any, names names) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			refer(item, names)
		}
	case map[string]any:
		for key, child := range v {
			switch key {
			case "configMap", "configMapRef", "configMapKeyRef":
				follow(child, "name", "ConfigMap/", names)
			case "secret":
				follow(child, "secretName", "Secret/", names) // of a volume
				follow(child, "name", "Secret/", names)       // of a projected one
			case "secretRef", "secretKeyRef", "nodePublishSecretRef":
				follow(child, "name", "Secret/", names)
			case "imagePullSecrets":
				list, _ := child.([]any)
				for _, item := range list {
					follow(item, "name", "Secret/", names)
				}
			default:
				refer(child, names)
				continue
			}
		}
	}
}

func follow(ref any, key, kind string, names names) {
	m, _ := ref.(map[string]any)
	if name, ok := m[key].(string); ok && names[kind+name] != "" {
		m[key] = names[kind+name]
	}
}

// takeReplicas takes the numbers out of the objects that others change too,
// the scaler and whoever scales by hand, and says what they are.
func takeReplicas(objects []Object) ([]Workload, error) {
	var out []Workload
	at := map[string]int{}
	for _, o := range objects {
		if !o.Kind.workload() {
			continue
		}
		n, given, err := count(o, "replicas")
		if err != nil {
			return nil, err
		}
		if !given {
			n = 1
		}
		at[o.String()] = len(out)
		out = append(out, Workload{Kind: o.Kind.Name, Name: o.Name, Replicas: n})
	}
	if len(out) == 0 {
		return nil, errors.New("the manifests have no Deployment and no StatefulSet")
	}
	for _, o := range objects {
		if o.Kind.Name != "HorizontalPodAutoscaler" {
			continue
		}
		target := o.Doc["spec"].(map[string]any)["scaleTargetRef"].(map[string]any)
		w := &out[at[fmt.Sprint(target["kind"], "/", target["name"])]]
		if w.Scaler != "" {
			return nil, fmt.Errorf("%s: %s has two HorizontalPodAutoscalers, %s and %s", o.source, w, w.Scaler, o.Name)
		}
		if err := scaled(w, o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scaled: the smallest number that the scaler keeps is what the whole traffic
// needs; replicas beside a scaler count when they are more.
func scaled(w *Workload, o Object) error {
	least, _, err := count(o, "minReplicas")
	if err != nil {
		return err
	}
	w.Scaler, w.Replicas = o.Name, max(w.Replicas, least)
	most, ok := o.Doc["spec"].(map[string]any)["maxReplicas"].(int64)
	if !ok || most < int64(w.Replicas) {
		return fmt.Errorf("%s: %s has maxReplicas %v, expected at least %d", o.source, o, o.Doc["spec"].(map[string]any)["maxReplicas"], w.Replicas)
	}
	return nil
}

// count takes a number of at least 1 out of an object.
func count(o Object, key string) (n int, given bool, err error) {
	spec := o.Doc["spec"].(map[string]any)
	value, given := spec[key]
	delete(spec, key)
	number, ok := value.(int64)
	if given && (!ok || number < 1 || number > math.MaxInt32) {
		return 0, true, fmt.Errorf("%s: %s has %s %v, expected at least 1", o.source, o, key, value)
	}
	return int(number), given, nil
}

// noteConfig makes the pods new ones when what they read has changed.
func noteConfig(objects []Object) {
	var config []Object
	for _, o := range objects {
		if o.Kind.Name == "ConfigMap" || o.Kind.Name == "Secret" {
			config = append(config, Object{Kind: o.Kind, Doc: map[string]any{
				"name": o.Name, "data": o.Doc["data"], "binaryData": o.Doc["binaryData"], "stringData": o.Doc["stringData"],
			}})
		}
	}
	sum, err := digest(config, true)
	if err != nil || len(config) == 0 {
		return
	}
	for _, o := range objects {
		if o.Kind.workload() {
			template := o.Doc["spec"].(map[string]any)["template"].(map[string]any)
			if notes, err := branch(template["metadata"].(map[string]any), "annotations"); err == nil {
				notes[NoteConfig] = sum[:16]
			}
		}
	}
}
