package kubernetes

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/kubernetes/kubetest"
)

// TestExpired: a list whose further pages are not kept any more begins anew,
// tells each object once, and comes to an end that is no answer.
func TestExpired(t *testing.T) {
	item := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"X","metadata":{"namespace":"shop","name":%q}}`, name)
	}
	for _, expired := range []int{1, 2} {
		var asked []string
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			token := r.URL.Query().Get("continue")
			asked = append(asked, token)
			w.Header().Set("Content-Type", "application/json")
			if token != "" && len(asked) <= 2*expired {
				w.WriteHeader(http.StatusGone)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"The provided continue parameter is too old"}`))
				return
			}
			next, items := "next", []string{item("a"), item("b")}
			if token != "" {
				next, items = "", []string{item("c")}
			}
			_, _ = fmt.Fprintf(w, `{"kind":"XList","apiVersion":"v1","metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
		})
		var got []string
		err := c.List(t.Context(), web.GroupVersionResource, "shop", "", func(o *unstructured.Unstructured) bool {
			got = append(got, o.GetName())
			return true
		})
		if expired == 2 {
			check(t, err, providers.Unavailable, "list httproutes: status 410: The provided continue parameter is too old")
		} else if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("%v, %v", got, err)
		}
		if want := []string{"", "next", "", "next"}; !slices.Equal(asked, want) {
			t.Errorf("asked for pages %q, want %q", asked, want)
		}
	}
}

// TestAhead: the API server's clock is known by its last answer.
func TestAhead(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	date := ""
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = []string{date}
		kubetest.Refuse(w, "no", http.StatusNotFound)
	})
	if by := c.Ahead(now); by != 0 {
		t.Errorf("ahead by %v before any answer", by)
	}
	for _, tt := range []struct {
		date string
		by   time.Duration
	}{
		{"Mon, 30 Nov 2026 13:00:00 GMT", time.Hour}, {"Mon, 30 Nov 2026 12:00:01 GMT", 0},
		{"Mon, 30 Nov 2026 11:00:00 GMT", 0}, {"Mon, 30 Nov 2026 12:15:00 GMT", 15 * time.Minute}, {"soon", 0},
	} {
		date = tt.date
		_, err := c.Get(t.Context(), web)
		check(t, err, providers.NotFound)
		if by := c.Ahead(now); by != tt.by {
			t.Errorf("at %s ahead by %v, want %v", tt.date, by, tt.by)
		}
	}
}
