package kubetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Apply applies a JSON patch (RFC 6902; test, add, replace and remove) to a
// copy of an object, all of it or nothing.
func Apply(object map[string]any, data []byte) (map[string]any, error) {
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(data, &ops); err != nil {
		return nil, err
	}
	var doc any = plain(object)
	for _, op := range ops {
		var path []string
		for _, p := range strings.Split(op.Path, "/")[1:] {
			path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(p))
		}
		next, err := apply(doc, path, op.Op, op.Value)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
		doc = next
	}
	return doc.(map[string]any), nil
}

// apply returns node with the operation done at path below it.
func apply(node any, path []string, op string, value any) (any, error) {
	if len(path) == 0 {
		if op == "test" && !reflect.DeepEqual(node, value) {
			return nil, fmt.Errorf("testing value %v failed", node)
		}
		return node, nil
	}
	switch node := node.(type) {
	case map[string]any:
		return inObject(node, path, op, value)
	case []any:
		return inList(node, path, op, value)
	}
	return nil, fmt.Errorf("there is nothing at %s", path[0])
}

func inObject(node map[string]any, path []string, op string, value any) (any, error) {
	child, there := node[path[0]]
	switch {
	case len(path) == 1 && op == "add", len(path) == 1 && op == "replace" && there:
		node[path[0]] = value
		return node, nil
	case !there:
		return nil, fmt.Errorf("there is no %s", path[0])
	case len(path) == 1 && op == "remove":
		delete(node, path[0])
		return node, nil
	}
	next, err := apply(child, path[1:], op, value)
	if err == nil {
		node[path[0]] = next
	}
	return node, err
}

func inList(node []any, path []string, op string, value any) (any, error) {
	i, err := strconv.Atoi(path[0])
	if path[0] == "-" {
		i, err = len(node), nil
	}
	inserts := len(path) == 1 && op == "add"
	switch {
	case err != nil || i < 0 || i > len(node) || i == len(node) && !inserts:
		return nil, fmt.Errorf("there is no index %s", path[0])
	case inserts:
		return slices.Insert(node, i, value), nil
	case len(path) == 1 && op == "remove":
		return slices.Delete(node, i, i+1), nil
	case len(path) == 1 && op == "replace":
		node[i] = value
		return node, nil
	}
	next, err := apply(node[i], path[1:], op, value)
	if err == nil {
		node[i] = next
	}
	return node, err
}
