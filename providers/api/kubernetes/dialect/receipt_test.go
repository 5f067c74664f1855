package dialect

import (
	"testing"
	"time"

	"github.com/manent/action/providers/api/kubernetes/kubetest"
	"github.com/manent/action/providers/api/kubernetes/route"
	"github.com/manent/action/state"
)

// TestLastWrite: a wait begins with the write, whoever's clock says when that was.
func TestLastWrite(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(by time.Duration) string { return now.Add(by).Format(time.RFC3339) }
	for name, tt := range map[string]struct {
		recorded time.Duration // by the API server, after now
		ahead    time.Duration // of its clock, as far as it is known
		receipt  state.Receipt
		want     time.Duration
	}{
		"recorded":                      {-time.Minute, 0, nil, -59 * time.Second},
		"by a clock that is ahead":      {time.Hour - time.Minute, time.Hour, nil, -59 * time.Second},
		"by one of another server":      {time.Hour, 0, nil, 0},
		"ours":                          {time.Hour, 0, state.Receipt{"web": "4", "web at": at(-time.Minute)}, -time.Minute},
		"ours, of before":               {-time.Second, 0, state.Receipt{"web": "3", "web at": at(-time.Minute)}, 0},
		"ours, by a machine ahead":      {-time.Minute, 0, state.Receipt{"web": "4", "web at": at(time.Hour)}, -59 * time.Second},
		"seen as wanted":                {time.Hour, 0, state.Receipt{"web wanted": "4", "web seen": at(-time.Minute)}, -time.Minute},
		"seen as wanted, but of before": {time.Hour, 0, state.Receipt{"web wanted": "3", "web seen": at(-time.Minute)}, 0},
		"seen later than written":       {-time.Hour, 0, state.Receipt{"web wanted": "4", "web seen": at(-time.Minute)}, time.Second - time.Hour},
	} {
		doc := kubetest.HTTPRoute("web", map[string]any{"backendRefs": kubetest.Refs()})
		meta := doc["metadata"].(map[string]any)
		meta["generation"], meta["managedFields"] = 4, []any{map[string]any{"manager": "x", "time": at(tt.recorded), "fieldsV1": map[string]any{"f:spec": map[string]any{"f:rules": map[string]any{}}}}}
		split, err := route.Gateway(doc, route.Names{Service: "shop", Namespace: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := LastWrite(Route{Doc: doc, Split: split, Ahead: tt.ahead}, tt.receipt, "web", now)
		if got.At.Sub(now) != tt.want || got.Ours != (tt.receipt != nil) {
			t.Errorf("%s: %v after now, want %v", name, got.At.Sub(now), tt.want)
		}
	}
}
