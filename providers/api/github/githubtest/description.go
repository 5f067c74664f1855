// Package githubtest is GitHub's REST API for tests: a server in the test's
// own process that refuses each request that GitHub's published description
// does not allow, and checks each of its own answers against it as well. It
// must not know who uses the client.
package githubtest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// openapi is what TestDescription extracts from the npm package that it names.
//
//go:embed openapi.json
var openapi []byte

// Description is the part of GitHub's OpenAPI description that is used.
type Description struct {
	Source  string                          `json:"source"`
	Version string                          `json:"version"`
	License string                          `json:"license"`
	Paths   map[string]map[string]Operation `json:"paths"` // by path and method in lower case
}

// basicError is the shape of a refusal; the description has it once, as what
// is answered to a deployment that does not exist.
func (d Description) basicError() Schema {
	return d.Paths["/repos/{owner}/{repo}/deployments/{deployment_id}/statuses"]["get"].Responses["404"].Content.JSON()
}

// Operation is one method of one path.
type Operation struct {
	OperationID string      `json:"operationId"`
	Parameters  []Parameter `json:"parameters"`
	RequestBody struct {
		Required bool    `json:"required"`
		Content  Content `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content Content `json:"content"`
	} `json:"responses"`
}

// Content has a schema per media type.
type Content map[string]struct {
	Schema Schema `json:"schema"`
}

// JSON is the schema of JSON, nil for none.
func (c Content) JSON() Schema { return c["application/json"].Schema }

// Parameter is one of a path or a query.
type Parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Schema   Schema `json:"schema"`
}

// Published returns the description.
func Published() (Description, error) {
	var d Description
	err := json.Unmarshal(openapi, &d)
	return d, err
}

// Find returns the operation that a request is for, and the values of its
// path's parameters.
func (d Description) Find(method, path string) (Operation, map[string]string, error) {
	for pattern, methods := range d.Paths {
		values, fits := match(pattern, path)
		if !fits {
			continue
		}
		op, known := methods[strings.ToLower(method)]
		if !known {
			return op, nil, fmt.Errorf("%s is no method of %s", method, pattern)
		}
		return op, values, op.checkParameters("path", values)
	}
	return Operation{}, nil, fmt.Errorf("%s %s is not described", method, path)
}

func match(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := map[string]string{}
	for i, part := range want {
		switch {
		case strings.HasPrefix(part, "{"):
			values[strings.Trim(part, "{}")] = got[i]
		case part != got[i]:
			return nil, false
		}
	}
	return values, true
}

// CheckQuery refuses parameters that are not described, or not as described.
func (o Operation) CheckQuery(query url.Values) error {
	values := map[string]string{}
	for key, all := range query {
		if len(all) != 1 {
			return fmt.Errorf("query parameter %s is given %d times", key, len(all))
		}
		values[key] = all[0]
	}
	return o.checkParameters("query", values)
}

func (o Operation) checkParameters(in string, values map[string]string) error {
	known := map[string]bool{}
	for _, p := range o.Parameters {
		if p.In != in {
			continue
		}
		known[p.Name] = true
		text, given := values[p.Name]
		if !given {
			if p.Required {
				return fmt.Errorf("%s parameter %s is missing", in, p.Name)
			}
			continue
		}
		var value any = text
		if p.Schema["type"] == "integer" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("%s parameter %s is %q, expected an integer", in, p.Name, text)
			}
			value = float64(n)
		}
		if text == "" {
			return fmt.Errorf("%s parameter %s is empty", in, p.Name)
		}
		if err := p.Schema.Check(in+" "+p.Name, value); err != nil {
			return err
		}
	}
	for key := range values {
		if !known[key] {
			return fmt.Errorf("%s parameter %s is not described for %s", in, key, o.OperationID)
		}
	}
	return nil
}

// CheckRequest refuses a body that is not as described.
func (o Operation) CheckRequest(body []byte) error {
	schema := o.RequestBody.Content.JSON()
	if schema == nil {
		if len(body) != 0 {
			return fmt.Errorf("%s takes no body, got %.40q", o.OperationID, body)
		}
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("body of %s: %w", o.OperationID, err)
	}
	return schema.Check("body", value)
}

// CheckAnswer refuses an answer that the description does not allow. A refusal
// that it does not list for the operation has the shape of all others.
func (d Description) CheckAnswer(o Operation, status int, body []byte) error {
	described, listed := o.Responses[strconv.Itoa(status)]
	schema := described.Content.JSON()
	if !listed {
		if status < 400 {
			return fmt.Errorf("%s does not answer %d", o.OperationID, status)
		}
		schema = d.basicError()
	}
	if schema == nil {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("answer %d of %s: %w", status, o.OperationID, err)
	}
	return schema.Check(fmt.Sprintf("answer %d", status), value)
}
