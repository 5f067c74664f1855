package external

import "context"

// Answered is the answer to one query, judged by itself.
type Answered struct {
	QueryAnswer
	Err error // why it counts for nothing; all but its id is empty then, and that too if it has none
}

// Query asks for the answers to queries, in the order in which they came. What
// makes no sense in one voids no other.
func (c *Client) Query(ctx context.Context, call Call) ([]Answered, error) {
	var list []any
	p := parser{result: typ[QueryResult](), redact: c.redact, list: "answers", items: &list}
	if _, err := c.exchange(ctx, call, p); err != nil {
		return nil, err
	}
	out := make([]Answered, len(list))
	for i, value := range list {
		out[i] = c.answered(p, value)
	}
	return out, nil
}

// answered judges one answer.
func (c *Client) answered(p parser, value any) Answered {
	object, _ := value.(map[string]any)
	id, _ := object["id"].(string)
	if p.secret(id) || fitsText(id, "id") != nil {
		id = ""
	}
	message, hint := p.texts(object)
	out, err := p.answer(value)
	if err == nil && out.Error != nil {
		out.Error, err = parseError(object["error"], message, hint)
	}
	if err != nil {
		return Answered{QueryAnswer: QueryAnswer{ID: id}, Err: c.plain(err)}
	}
	return Answered{QueryAnswer: out}
}

func (p parser) answer(value any) (out QueryAnswer, err error) {
	if p.secret(value) {
		return out, errSecret
	}
	if err := fits(value, typ[QueryAnswer](), "answer"); err != nil {
		return out, err
	}
	return out, convert(value, &out)
}
