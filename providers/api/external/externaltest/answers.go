//go:build unix

package externaltest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// question is a request as the plugin understands it.
type question struct {
	Protocol int               `json:"protocol"`
	ID       string            `json:"id"`
	Request  string            `json:"request"`
	Settings map[string]string `json:"settings"`
	Secrets  map[string]string `json:"secrets"`
	Params   struct {
		Slot    string `json:"slot"`
		Release struct {
			Version string `json:"version"`
		} `json:"release"`
		Step    string            `json:"step"`
		Vars    map[string]string `json:"vars"`
		Share   float64           `json:"share"`
		Gradual bool              `json:"gradual"`
		Want    []Weights         `json:"want"`
		Expect  []Weights         `json:"expect"`
		Match   map[string]string `json:"match"`
		On      bool              `json:"on"`
		Parts   []struct {
			ID string `json:"id"`
		} `json:"parts"`
		Toler   float64          `json:"tolerance"`
		Queries []map[string]any `json:"queries"`
	} `json:"params"`
}

type reply struct {
	result any
	no     *refusal
}

func yes(result any) reply { return reply{result: result} }

func no(kind, format string, args ...any) reply {
	return reply{no: &refusal{Kind: kind, Message: fmt.Sprintf(format, args...), Hint: "look at the test"}}
}

type obj = map[string]any

// answer does what is asked, unless the mood is against it.
func (w *World) answer(q question, mood string, log io.Writer) reply {
	if q.Protocol != 1 && !w.Careless {
		return no("invalid", "protocol %d, expected 1", q.Protocol)
	}
	kind, isError := strings.CutPrefix(mood, "error ")
	switch {
	case isError:
		refused := no(kind, "refused by the test: %s", w.Spills)
		if kind == "conflict" && len(q.Params.Want) > 0 {
			refused.no.Drift = obj{"part": q.Params.Want[0].ID, "seen": obj{"a": 93, "b": 7}}
		}
		return refused
	case mood == Refuses:
		_, _ = fmt.Fprintf(log, "login with %s failed\n", w.Spills)
		return no("invalid", "login with %s failed", w.Spills)
	case mood == LateMood:
		for _, want := range q.Params.Want {
			want.From = from(q.Params.Expect, want.ID)
			if p := w.part(want.ID); p != nil {
				want.Revision = p.Revision
			}
			w.Late = append(w.Late, want)
		}
		return reply{}
	case mood == Dies || mood == Hangs:
		return reply{}
	}
	switch q.Request {
	case "describe":
		return yes(w.describe())
	case "deploy", "ready", "scale", "retire":
		_, _ = fmt.Fprintf(log, "%s %s into %s\n", q.Request, q.Params.Release.Version, q.Params.Slot)
		return w.slot(q, mood)
	}
	if mood == Between {
		q.Params.Want = q.Params.Want[:1]
	}
	return w.route(q)
}

func (w *World) describe() any {
	if w.Describe != nil {
		return w.Describe
	}
	traits := obj{"unit": "percent", "step": 0.01, "conditional": !w.Loose, "testers": "header"}
	if w.Plans {
		traits = obj{"unit": "weight", "conditional": !w.Loose, "testers": "header", "plans": true, "pinnedFor": "5m"}
	}
	return obj{"name": "externaltest", "protocols": []int{1}, "traits": traits, "capabilities": []string{"deploy", "slots", "scale", "traffic_router"}}
}

func (w *World) slot(q question, mood string) reply {
	slot := q.Params.Slot
	switch q.Request {
	case "deploy":
		w.first(slot, q.Params.Gradual)
		w.Versions[slot] = q.Params.Release.Version
		unit := slot + "-" + q.Params.Release.Version
		if w.Fickle {
			unit = fmt.Sprint(len(w.Log))
		}
		if mood == Tells {
			unit = w.Spills
		}
		return yes(obj{"ref": obj{"unit": unit}})
	case "ready":
		if mood == NotYet {
			return yes(obj{"ready": false, "reason": "1 of 3 is up"})
		}
		if w.Careless && q.Params.Release.Version == "" {
			return yes(obj{"ready": false, "reason": "nothing was deployed"})
		}
		if has, scaled := w.Capacity[slot]; scaled && has < q.Params.Share && !w.Careless {
			return yes(obj{"ready": false, "reason": fmt.Sprintf("there is capacity for %v %%", has)})
		}
		return yes(obj{"ready": true})
	case "scale":
		if has, scaled := w.Capacity[slot]; scaled { // it may have traffic
			w.Capacity[slot] = max(has, q.Params.Share)
		}
	case "retire":
		w.Capacity[slot] = 0
		delete(w.Versions, slot)
	}
	return yes(obj{})
}

// first is the capacity that a deployment brings.
func (w *World) first(slot string, gradual bool) {
	switch {
	case w.Idle:
	case gradual:
		w.Capacity[slot] = 1
	default:
		w.Capacity[slot] = 100
	}
}

func (w *World) route(q question) reply {
	switch q.Request {
	case "read":
		return w.read()
	case "write":
		for _, want := range q.Params.Want {
			want.From = from(q.Params.Expect, want.ID)
			if p := w.part(want.ID); p != nil && p.Down {
				return no("unavailable", "part %s does not answer", want.ID)
			}
			if refused := w.set(want); refused != nil {
				return reply{no: refused}
			}
		}
		return yes(obj{"receipt": obj{"writes": fmt.Sprint(w.Writes)}})
	case "settled":
		if w.Careless {
			return yes(obj{"settled": true})
		}
		for _, want := range q.Params.Want {
			if p := w.part(want.ID); p == nil || !maps.Equal(p.Weights, want.Weights) || !maps.Equal(p.Live, want.Weights) {
				return yes(obj{"settled": false})
			}
		}
		return yes(obj{"settled": true})
	case "target":
		w.Testers = q.Params.On && !w.Careless
		return yes(obj{"header": obj{q.Params.Match["header"]: q.Params.Match["value"]}})
	case "plan":
		return w.plan(q)
	}
	if w.Careless {
		return yes(obj{})
	}
	return no("invalid", "there is no request %s", q.Request)
}

func from(expect []Weights, id string) map[string]float64 {
	for _, e := range expect {
		if e.ID == id {
			return e.Weights
		}
	}
	return nil
}

func (w *World) read() reply {
	parts, up := []obj{}, 1
	if w.Empty {
		up = 0
	}
	for _, p := range w.Parts {
		if p.Down {
			parts = append(parts, obj{"id": p.ID, "error": obj{"kind": "unavailable", "message": "it does not answer"}})
			continue
		}
		a, b := p.Live["a"], p.Live["b"]
		shares := obj{"a": 100 * a / (a + b), "b": 100 * b / (a + b)}
		if p.ID == w.Odd {
			shares["b"] = 500
		}
		parts = append(parts, obj{
			"id": p.ID, "weights": p.Weights, "shares": shares,
			"units": obj{"a": 1, "b": up}, "revision": fmt.Sprint(p.Revision), "pending": !maps.Equal(p.Weights, p.Live),
		})
	}
	return yes(obj{"parts": parts, "testers": w.Testers})
}

// plan gives weights of 0 to 10.
func (w *World) plan(q question) reply {
	n := float64(int(q.Params.Share/10 + 0.5))
	if off := n*10 - q.Params.Share; off > q.Params.Toler || -off > q.Params.Toler || n == 0 && q.Params.Share > 0 {
		return no("invalid", "the smallest share is 10 %%")
	}
	other := map[string]string{"a": "b", "b": "a"}[q.Params.Slot]
	weights := []obj{}
	for _, p := range q.Params.Parts {
		if p.ID == w.Odd {
			return no("invalid", "part %s makes no sense", p.ID)
		}
		weights = append(weights, obj{"id": p.ID, "weights": obj{q.Params.Slot: n, other: 10 - n}})
	}
	return yes(obj{"weights": weights, "share": n * 10})
}

// say writes the answer, in the way of the mood.
func (r reply) say(q question, mood string, out io.Writer) int {
	document := obj{"protocol": 1, "id": q.ID}
	if r.no != nil {
		document["error"] = r.no
	} else {
		document["result"] = r.result
	}
	switch mood {
	case OtherID:
		document["id"] = "another"
	case OtherVers:
		document["protocol"] = 2
	}
	data, err := json.Marshal(document)
	if err != nil {
		return 1
	}
	switch mood {
	case Dies, Between, Mute, LateMood:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case Hangs:
		_ = os.WriteFile("started-"+q.Request, []byte("started"), 0o600)
		forever()
	case Stubborn:
		signal.Ignore(syscall.SIGTERM)
		forever()
	case Half:
		data = data[:len(data)/2]
	case Silent:
		return 0
	case Twice:
		data = append(data, data...)
	case Garbage:
		data = []byte("deployed, all is well\n")
	case Huge:
		for err == nil {
			_, err = out.Write(data)
		}
		forever()
	case Family:
		child := exec.Command("sh", "-c", "trap '' TERM; sleep 1000 & wait") //nolint:noctx // is to outlive this process
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if lock, err := hold("family"); err != nil {
			return 1
		} else if child.ExtraFiles = []*os.File{lock}; child.Start() != nil {
			return 1
		}
	}
	if _, err := out.Write(data); err != nil {
		return 1
	}
	if mood == Fails {
		return 3
	}
	return 0
}

// hold locks a file until all that have it open are gone.
func hold(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Gone reports whether the children that Family left have ended.
func Gone(dir string) bool {
	f, err := hold(filepath.Join(dir, "family"))
	return err == nil && f.Close() == nil
}

// forever waits, as the test's world never does.
func forever() {
	for {
		time.Sleep(time.Hour) //nolint:forbidigo // this program is to hang
	}
}
