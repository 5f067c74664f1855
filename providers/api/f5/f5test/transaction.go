package f5test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// transaction is a list of commands that is carried out as a whole.
type transaction struct {
	state, reason string
	commands      []func()
	uris          []string
	looks         int
}

// Begun is a transaction of somebody, in a state and with a command for each
// path, which are carried out to no effect.
func (b *BigIP) Begun(state string, paths ...string) {
	b.next++
	b.open[b.next] = &transaction{state: state, uris: paths, looks: b.Looks}
}

// transactions lists all, which is a look at each.
func (b *BigIP) transactions() answer {
	items := []any{}
	for id := range b.open {
		b.look(b.open[id])
		items = append(items, b.show(id).body)
	}
	return ok(map[string]any{"kind": "tm:transactioncollectionstate", "items": items})
}

func (b *BigIP) look(t *transaction) {
	if t.looks--; t.looks < 0 && t.state == "VALIDATING" {
		b.end(t)
	}
}

// list is what a transaction is made of.
func (t *transaction) list() answer {
	items := []any{}
	for i, path := range t.uris {
		items = append(items, map[string]any{"method": "PATCH", "uri": "https://localhost" + path, "commandId": i + 1, "kind": "tm:transaction:commandsstate"})
	}
	return ok(map[string]any{"kind": "tm:transaction:commandscollectionstate", "items": items})
}

func (b *BigIP) begin(r request) answer {
	if string(r.body) != "{}" {
		b.t.Errorf("POST of a transaction with %q, expected {}", r.body)
	}
	b.next++
	b.open[b.next] = &transaction{state: "STARTED"}
	return b.show(b.next)
}

func (b *BigIP) show(id int64) answer {
	t := b.open[id]
	out := map[string]any{"kind": "tm:transactionstate", "transId": id, "state": t.state, "timeoutSeconds": 120}
	if t.reason != "" {
		out["failureReason"] = t.reason
	}
	return ok(out)
}

// queue adds a command to a transaction that is still there.
func (b *BigIP) queue(text, path string, apply func()) answer {
	id, err := strconv.ParseInt(text, 10, 64)
	t := b.open[id]
	if err != nil || t == nil || t.state != "STARTED" {
		return refuse(http.StatusNotFound, "Transaction %s was not found", text)
	}
	t.commands, t.uris = append(t.commands, apply), append(t.uris, path)
	return ok(map[string]any{"method": "PATCH", "commandId": len(t.commands), "kind": "tm:transaction:commandsstate"})
}

func (b *BigIP) transaction(r request, text string) answer {
	if r.Header.Get("X-F5-REST-Coordination-Id") != "" {
		b.t.Error("a call about a transaction was added to it")
	}
	switch {
	case text == "" && r.Method == http.MethodPost:
		return b.begin(r)
	case text == "" && r.Method == http.MethodGet:
		return b.transactions()
	}
	if b.Expire && r.Method == http.MethodPatch {
		clear(b.open)
	}
	text, commands := strings.CutSuffix(text, "/commands")
	id, err := strconv.ParseInt(text, 10, 64)
	t := b.open[id]
	if err != nil || t == nil {
		return refuse(http.StatusNotFound, "Transaction %s was not found", text)
	}
	if commands && r.Method == http.MethodGet {
		return t.list()
	}
	switch r.Method {
	case http.MethodGet:
		if b.Forget {
			b.end(t)
			return refuse(http.StatusNotFound, "Transaction %s was not found", text)
		}
		b.look(t)
		return b.show(id)
	case http.MethodDelete:
		if t.state != "STARTED" {
			b.t.Errorf("a transaction is taken away that is %s", t.state)
		}
		delete(b.open, id)
		return ok(nil)
	case http.MethodPatch:
		return b.commit(r, id, t)
	}
	b.t.Errorf("%s of a transaction", r.Method)
	return refuse(http.StatusBadRequest, "unsupported")
}

func (b *BigIP) commit(r request, id int64, t *transaction) answer {
	var in map[string]string
	if err := json.Unmarshal(r.body, &in); err != nil || len(in) != 1 || in["state"] != "VALIDATING" {
		b.t.Errorf("commit with %q", r.body)
	}
	if t.state != "STARTED" {
		return refuse(http.StatusBadRequest, "Transaction %d is %s", id, t.state)
	}
	if b.FailWith != "" && b.FailAtOnce {
		t.state, t.reason = "FAILED", b.FailWith
		return refuse(http.StatusConflict, "transaction failed:%s", b.FailWith)
	}
	t.state, t.looks = "VALIDATING", b.Looks
	if b.Looks == 0 {
		b.end(t)
	}
	return b.show(id)
}

// end carries a transaction out, or none of it.
func (b *BigIP) end(t *transaction) {
	if b.FailWith != "" {
		t.state, t.reason = "FAILED", b.FailWith
		return
	}
	t.state = "COMPLETED"
	if !b.Ignore {
		for _, do := range t.commands {
			do()
		}
		b.Commits++
		b.changed()
	}
	if after := b.After; after != nil {
		b.After = nil
		after()
	}
}
