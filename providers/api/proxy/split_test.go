package proxy

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSplitIsExact: of 10,000 requests exactly the share, of any run of n
// requests n × share off by less than 1.
func TestSplitIsExact(t *testing.T) {
	for _, b := range []uint64{0, 1, 2, 7, 99, 100, 333, 500, 2500, 3333, 5000, 6667, 9999, hundred} {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			s := &split{b: b}
			count := make([]int, 3*hundred+1) // of b's after i requests
			for i := range 3 * hundred {
				count[i+1] = count[i] + s.next()
			}
			for _, n := range []int{1, 2, 3, 10, 99, 100, 101, 1000, 4567, hundred} {
				for from := 0; from+n < len(count); from += 37 {
					got, want := float64(count[from+n]-count[from]), float64(n)*float64(b)/hundred
					if math.Abs(got-want) >= 1 || (n == hundred && got != want) {
						t.Fatalf("requests %d to %d: %v for b, want %v", from, from+n, got, want)
					}
				}
			}
		})
	}
}

// TestSplitIsExactTogether: the same with several requests at a time.
func TestSplitIsExactTogether(t *testing.T) {
	s := &split{b: 137}
	counts := make([]int, 8)
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() {
			for range 2 * hundred / len(counts) {
				counts[i] += s.next()
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum != 2*137 {
		t.Errorf("%d of 20,000 for b, want 274", sum)
	}
}

func TestTesters(t *testing.T) {
	entry := Testers{On: true, Header: "x-canary", Value: "always", Slot: SlotB}
	tests := []struct {
		name    string
		b       float64
		testers Testers
		value   string
		want    string
	}{
		{"on, tester", 0, entry, "always", SlotB},
		{"on, never", 100, entry, "never", SlotA},
		{"on, another value", 0, entry, "Always", SlotA},
		{"on, no header", 0, entry, "", SlotA},
		{"off, tester", 0, Testers{}, "always", SlotA},
		{"off, never", 100, Testers{}, "never", SlotB},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, front := start(t, Options{Weights: map[string]float64{SlotA: 100 - tt.b, SlotB: tt.b}, Testers: tt.testers})
			for range 3 {
				if got := get(t, front, "X-Canary", tt.value); got.body != tt.want {
					t.Errorf("reached %s, want %s", got.body, tt.want)
				}
			}
			dealt := map[bool]uint64{true: 3, false: 0}[!tt.testers.On || (tt.value != "always" && tt.value != "never")]
			if got := p.State().Measured.Requests; got != dealt {
				t.Errorf("%d requests measured, want %d: testers do not count", got, dealt)
			}
		})
	}
}

// TestTestersKeepTheSplit: the entry changes nothing about where the split is.
func TestTestersKeepTheSplit(t *testing.T) {
	p, _ := start(t, Options{})
	before := p.table.Load().split
	testers(t, p, Testers{On: true, Header: "h", Value: "v", Slot: SlotA})
	if p.table.Load().split != before {
		t.Error("the split began anew")
	}
}

// sticky is a proxy with a clock that the test turns.
func sticky(t *testing.T, b float64) (p *Proxy, front string, turn func(time.Duration)) {
	now := time.Unix(1_700_000_000, 0)
	var mu sync.Mutex
	p, front = start(t, Options{
		Sticky: Sticky{Cookie: "pin", TTL: time.Hour}, Weights: map[string]float64{SlotA: 100 - b, SlotB: b},
		Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
	})
	return p, front, func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
}

func TestPinHolds(t *testing.T) {
	p, front, turn := sticky(t, 100)
	cookies := get(t, front).cookies
	if len(cookies) != 1 {
		t.Fatalf("cookies %v, want one", cookies)
	}
	c := cookies[0]
	if c.Name != "pin" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 3600 || c.Path != "/" || c.Secure {
		t.Errorf("cookie %v", c.Raw)
	}
	pin := "pin=" + c.Value
	turn(time.Minute)
	set(t, p, 1)
	for range 20 {
		if got := get(t, front, "Cookie", pin); got.body != SlotB || len(got.cookies) != 0 {
			t.Fatalf("pinned client reached %s, cookies %v, want b and the old pin", got.body, got.cookies)
		}
	}
	if s := p.State(); s.Sticky.Pinned[SlotB] != 1 || s.Measured.Shares[SlotB] != 100 {
		t.Errorf("state %+v, want one pinned to b and all requests measured there", s)
	}
	set(t, p, 0)
	if got := get(t, front, "Cookie", pin); got.body != SlotA || len(got.cookies) != 1 {
		t.Errorf("pinned to a slot without weight: reached %s, cookies %v, want a and a new pin", got.body, got.cookies)
	}
	if s := p.State(); s.Sticky.Pinned[SlotB] != 0 {
		t.Errorf("pins %v, want none that counts to a slot without weight", s.Sticky.Pinned)
	}
	turn(time.Second)
	set(t, p, 1)
	if got := get(t, front, "Cookie", pin); got.body != SlotA {
		t.Error("a pin to the version that was in the slot before was honoured")
	}
}

func TestPinsThatDoNotHold(t *testing.T) {
	_, front, turn := sticky(t, 0.01) // the first 4,999 requests are a's
	name, stamp, _ := strings.Cut(get(t, front).cookies[0].Value, "-")
	if name != SlotA {
		t.Fatalf("pinned to %s", name)
	}
	if got := get(t, front, "Cookie", "pin=b-"+stamp); got.body != SlotB {
		t.Fatal("a good pin to b does not hold; the rest would show nothing")
	}
	for _, value := range []string{"b", "b-", "b-0", "c-" + stamp, "-" + stamp, "b-!" + stamp, "b-zzzzzzzzzzzzzzzz"} {
		if got := get(t, front, "Cookie", "pin="+value); got.body != SlotA {
			t.Errorf("pin %q was honoured", value)
		}
	}
	turn(time.Hour + time.Second)
	if got := get(t, front, "Cookie", "pin=b-"+stamp); got.body != SlotA {
		t.Error("a pin older than its life was honoured")
	}
}

func TestPinIsSecureBehindTLS(t *testing.T) {
	for _, trust := range []bool{false, true} {
		p, _ := start(t, Options{Sticky: Sticky{Cookie: "pin", TTL: time.Hour}, TrustForwarded: trust})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.test/", nil)
		r.Header.Set("X-Forwarded-Proto", "https")
		rec := httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, r)
		if got := rec.Result().Cookies()[0].Secure; got != trust {
			t.Errorf("trusted %v: secure %v", trust, got)
		}
	}
}

func TestPinsAreCountedForTheirLife(t *testing.T) {
	c := pinCount{ttl: 80 * time.Second}
	start := time.Unix(800_000, 0)
	for i := range 16 {
		c.add(1, start.Add(time.Duration(i)*10*time.Second))
	}
	now := start.Add(150 * time.Second)
	if got := c.count(1, now, start); got != 9 {
		t.Errorf("%d pins, want the 9 that began within the last 80 s, to an eighth", got)
	}
	if got := c.count(1, now, now); got != 1 {
		t.Errorf("%d pins since now, want 1", got)
	}
	if got := len(c.buckets[1]); got > 10 {
		t.Errorf("%d buckets kept, want the old ones gone", got)
	}
}
