package config

import (
	"fmt"
	"slices"
	"strings"
)

// Part is what one pass of the plan is about: the whole environment, or an
// element of a wave.
type Part struct {
	Name    string // "" without waves; else the wave's, or <wave>-<value>
	Wave    string
	Region  string // value of the label region, "" when the elements differ
	Cluster string // "" when the part is made of targets
	Targets []Target
}

// Issue is a contradiction, at a path of the configuration.
type Issue struct {
	Path    string
	Message string
	Hint    string
}

// element is what waves select: a cluster, or a target where there are none.
type element struct {
	path    string
	name    string
	cluster string
	labels  map[string]string
	target  *Target
}

// Parts splits the environment into the parts that are rolled out one after
// the other. With issues the parts are those that make sense.
func (c Config) Parts() ([]Part, []Issue) {
	if len(c.Rollout.Waves) == 0 {
		return c.wholePart()
	}
	elements := c.elements()
	if len(elements) == 0 {
		return nil, []Issue{{"rollout.waves", "waves select from clusters or targets, none are given", ""}}
	}
	var issues []Issue
	if len(c.Clusters) > 0 && len(c.Targets) > 0 {
		issues = append(issues, Issue{"rollout.waves", "waves select from clusters or from targets, both are given", "put the targets' settings into the clusters, or leave the clusters out"})
	}
	var parts []Part
	taken := map[string]string{} // element → wave
	for i, w := range c.Rollout.Waves {
		path := fmt.Sprintf("rollout.waves[%d]", i)
		mine, more := selected(w, path, elements, taken)
		issues = append(issues, more...)
		split, more := splitWave(w, path, mine)
		issues = append(issues, more...)
		parts = append(parts, split...)
	}
	for _, e := range elements {
		if taken[e.path] == "" {
			issues = append(issues, Issue{e.path, e.name + " is in no wave", "add a wave that selects it, for example with label!=value"})
		}
	}
	return parts, append(issues, sameParts(parts)...)
}

func (c Config) wholePart() ([]Part, []Issue) {
	p := Part{Targets: c.Targets}
	var elements []element
	if len(c.Clusters) > 1 {
		return []Part{p}, []Issue{{"clusters", fmt.Sprintf("%d clusters without rollout.waves", len(c.Clusters)), "say with rollout.waves in which order they are rolled out"}}
	}
	if len(c.Clusters) == 1 {
		p.Cluster = c.Clusters[0].Name
		elements = []element{{labels: c.Clusters[0].Labels}}
	} else {
		elements = c.elements()
	}
	p.Region = commonRegion(elements)
	return []Part{p}, nil
}

func (c Config) elements() []element {
	var out []element
	for i, cl := range c.Clusters {
		out = append(out, element{path: fmt.Sprintf("clusters[%d]", i), name: "cluster " + cl.Name, cluster: cl.Name, labels: cl.Labels})
	}
	if len(out) > 0 {
		return out
	}
	for i := range c.Targets {
		t := &c.Targets[i]
		out = append(out, element{path: fmt.Sprintf("targets[%d]", i), name: "target " + t.Host, labels: t.Labels, target: t})
	}
	return out
}

// selected returns a wave's elements, and marks them as taken. Of those that
// another wave has it names the first.
func selected(w Wave, path string, elements []element, taken map[string]string) ([]element, []Issue) {
	s, err := ParseSelector(w.Select)
	if err != nil {
		return nil, nil // reported where select is checked
	}
	var mine []element
	var issues []Issue
	for _, e := range elements {
		if !s.Match(e.labels) {
			continue
		}
		if first := taken[e.path]; first != "" {
			if issues == nil {
				issues = append(issues, Issue{path + ".select", fmt.Sprintf("%s is already in wave %s", e.name, first), ""})
			}
			continue
		}
		taken[e.path] = w.Name
		mine = append(mine, e)
	}
	if len(mine) == 0 && len(issues) == 0 {
		issues = append(issues, Issue{path + ".select", fmt.Sprintf("wave %s is empty: %q selects nothing", w.Name, w.Select), "labels given are " + labelList(elements)})
	}
	return mine, issues
}

func labelList(elements []element) string {
	var all []string
	for _, e := range elements {
		for label, value := range e.labels {
			all = append(all, label+"="+value)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all[:min(len(all), 12)], ", ")
}

// splitWave makes a wave's passes: by the values of a label, over its
// clusters, or one.
func splitWave(w Wave, path string, mine []element) ([]Part, []Issue) {
	if len(mine) == 0 {
		return nil, nil
	}
	groups, order, issues := groupBy(w, path, mine)
	var parts []Part
	for _, value := range order {
		g := groups[value]
		p := Part{Name: w.Name, Wave: w.Name, Region: commonRegion(g), Cluster: g[0].cluster}
		if value != "" {
			p.Name += "-" + value
			if !labelWord.MatchString(value) || strings.Contains(value, "/") {
				issues = append(issues, Issue{path + ".by", fmt.Sprintf("value %q cannot be part of a step's name", value), "use letters, digits, dots, dashes and underscores"})
			}
		}
		if len(g) > 1 && g[0].cluster != "" {
			issues = append(issues, Issue{path + ".by", fmt.Sprintf("%s=%s puts %d clusters into one pass, expected one", w.By, value, len(g)), "leave by out: each cluster is a pass of its own"})
		}
		for _, e := range g {
			if e.target != nil {
				p.Targets = append(p.Targets, *e.target)
			}
		}
		parts = append(parts, p)
	}
	return parts, issues
}

// groupBy keeps the order in which the values are met. Value "" is the whole
// wave.
func groupBy(w Wave, path string, mine []element) (map[string][]element, []string, []Issue) {
	groups := map[string][]element{}
	var order []string
	var issues []Issue
	for _, e := range mine {
		value := ""
		switch {
		case w.By != "":
			if value = e.labels[w.By]; value == "" {
				issues = append(issues, Issue{path + ".by", fmt.Sprintf("%s of wave %s has no label %s", e.name, w.Name, w.By), ""})
				continue
			}
		case e.cluster != "" && len(mine) > 1:
			value = e.cluster
		}
		if groups[value] == nil {
			order = append(order, value)
		}
		groups[value] = append(groups[value], e)
	}
	return groups, order, issues
}

func commonRegion(elements []element) string {
	region := ""
	for i, e := range elements {
		if i > 0 && e.labels["region"] != region {
			return ""
		}
		region = e.labels["region"]
	}
	return region
}

func sameParts(parts []Part) []Issue {
	seen := map[string]bool{}
	var issues []Issue
	for _, p := range parts {
		if seen[p.Name] {
			issues = append(issues, Issue{"rollout.waves", fmt.Sprintf("two passes are called %s", p.Name), "rename a wave"})
		}
		seen[p.Name] = true
	}
	return issues
}
