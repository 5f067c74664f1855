package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/manent/action/providers"
)

// CutField separates a reference from the field behind it:
// "path/to/it#password" is "path/to/it" and "password". Without "#" the field
// is empty and the whole value is meant.
func CutField(ref string) (rest, field string, given bool) { return strings.Cut(ref, "#") }

// Field takes one field of a value that is a JSON object: a text as it is, a
// number or a boolean as it is written. The errors are faults without
// provider and operation and hold nothing of the value: Invalid when it is no
// such object or the field is none of these, NotFound when it has no such
// field or an empty one.
func Field(value providers.Secret, field string) (providers.Secret, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(value.Reveal()), &fields) != nil || fields == nil {
		return providers.Secret{}, invalid("the value is not a JSON object", "leave out # and what is behind it to take the whole value")
	}
	raw, ok := fields[field]
	if !ok {
		return providers.Secret{}, &providers.Fault{
			Kind: providers.NotFound, Err: fmt.Errorf("the value has no field %.100q", field), Hint: "fields are told apart by case",
		}
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	switch first := raw[0]; {
	case first == '{' || first == '[' || first == 'n':
		return providers.Secret{}, invalid(fmt.Sprintf("field %.100q is neither a text nor a number", field), "name a field that holds the secret itself")
	case text == "":
		return providers.Secret{}, &providers.Fault{
			Kind: providers.NotFound, Err: fmt.Errorf("field %.100q is empty", field), Hint: "store the secret in it",
		}
	}
	return providers.NewSecret(text), nil
}

func invalid(what, hint string) error {
	return &providers.Fault{Kind: providers.Invalid, Err: errors.New(what), Hint: hint}
}
