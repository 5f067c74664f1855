package f5

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/f5/f5test"
)

// device is a client and the device it talks to.
func device(t *testing.T, members ...*f5test.Member) (*Client, *f5test.BigIP, *[]providers.Secret) {
	t.Helper()
	b := f5test.New(t, members...)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	hidden := &[]providers.Secret{}
	c, err := New(Options{
		Provider: "f5", URL: server.URL, Pause: time.Millisecond,
		Credentials: func(context.Context) (providers.Secret, error) {
			return providers.NewSecret(f5test.User + ":" + f5test.Password), nil
		},
		Hide: func(s providers.Secret) error { *hidden = append(*hidden, s); return nil },
		Log:  func(string, ...any) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, b, hidden
}

func v4() *f5test.Member {
	return &f5test.Member{Name: "10.0.0.1:80", Partition: "Common", Address: "10.0.0.1", Ratio: 3, Monitor: "up", Connections: 42}
}

func v6() *f5test.Member {
	return &f5test.Member{Name: "2001:db8::1.8080", Partition: "Tenant", Address: "2001:db8::1", Ratio: 5, Monitor: "unchecked", Disabled: true}
}

func TestMembers(t *testing.T) {
	c, b, hidden := device(t, v4(), v6())
	err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
		pool, err := s.Pool(ctx, b.Pool)
		if err != nil || pool.Mode != "ratio-member" || !pool.ByRatio() {
			t.Errorf("pool %+v, %v", pool, err)
		}
		members := pool.Members
		expected := []Member{
			{Name: "10.0.0.1:80", FullPath: "/Common/10.0.0.1:80", Address: "10.0.0.1", Ratio: 3, Session: "monitor-enabled", State: "up"},
			{Name: "2001:db8::1.8080", FullPath: "/Tenant/2001:db8::1.8080", Address: "2001:db8::1", Ratio: 5, Session: "user-disabled", State: "unchecked"},
		}
		if !slices.Equal(members, expected) {
			t.Errorf("members %+v, expected %+v", members, expected)
		}
		if members[0].Weight() != 3 || members[1].Weight() != 0 {
			t.Errorf("weights %d and %d", members[0].Weight(), members[1].Weight())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if len(*hidden) != 2 || (*hidden)[0].Reveal() != f5test.Password || !strings.HasPrefix((*hidden)[1].Reveal(), "TOKEN") || b.Live() > 0 {
		t.Errorf("%d secrets hidden, %d tokens left", len(*hidden), b.Live())
	}
}

func TestCalled(t *testing.T) {
	tests := []struct {
		member, address string
		yes, no         []string
	}{
		{"10.0.0.1:80", "10.0.0.1", []string{"10.0.0.1:80", "10.0.0.1"}, []string{"10.0.0.1:8080", "10.0.0.11", "10.0.0.1:8", ""}},
		{"web1:80", "10.0.0.1", []string{"web1:80", "web1", "10.0.0.1:80", "10.0.0.1"}, []string{"web", "web1:", "web11"}},
		{"web1:http", "10.0.0.1", []string{"web1:http", "web1"}, []string{"web1:80"}},
		{
			"2001:db8::1.80", "2001:db8::1", []string{"[2001:db8::1]:80", "2001:db8::1.80", "2001:db8::1", "[2001:DB8:0::1]:80"},
			[]string{"[2001:db8::1]:81", "2001:db8::1.81", "2001:db8::11"},
		},
		{"10.0.0.1%2:80", "10.0.0.1%2", []string{"10.0.0.1%2:80", "10.0.0.1%2"}, []string{"10.0.0.1:80"}},
	}
	for _, tt := range tests {
		m := Member{Name: tt.member, Address: tt.address}
		for _, name := range tt.yes {
			if !m.Called(name) {
				t.Errorf("%q does not mean %s", name, tt.member)
			}
		}
		for _, name := range tt.no {
			if m.Called(name) {
				t.Errorf("%q means %s", name, tt.member)
			}
		}
	}
}

// Both ways to nest.
func TestStatuses(t *testing.T) {
	for _, flat := range []bool{false, true} {
		c, b, _ := device(t, v4(), v6())
		b.FlatStats = flat
		err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
			got, err := s.Statuses(ctx, b.Pool)
			if len(got) != 2 || got["10.0.0.1:80"] != (Status{"available", "enabled", 42}) || got["2001:db8::1.8080"] != (Status{"unknown", "disabled", 0}) {
				t.Errorf("flat %v: %+v", flat, got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// All of a transaction or nothing; one that is not committed is taken away.
func TestTransact(t *testing.T) {
	c, b, _ := device(t, v4(), v6())
	b.Looks = 2
	wrong := errors.New("changed my mind")
	err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
		pool, err := s.Pool(ctx, b.Pool)
		if err != nil {
			return err
		}
		members := pool.Members
		both := func(then error) func(int64) error {
			return func(id int64) error {
				for _, m := range members {
					if err := s.Set(ctx, id, b.Pool, m, Change{Ratio: 9, Session: "user-enabled", State: "user-up"}); err != nil {
						return err
					}
				}
				return then
			}
		}
		if _, err := s.Transact(ctx, both(wrong)); !errors.Is(err, wrong) || b.Commits != 0 || b.Members[0].Ratio != 3 {
			t.Errorf("given up: %v, %d changes", err, b.Commits)
		}
		if calls := b.Requests(); !strings.HasPrefix(calls[len(calls)-1], "DELETE /mgmt/tm/transaction/") {
			t.Errorf("last call %s, expected that the transaction is taken away", calls[len(calls)-1])
		}
		id, err := s.Transact(ctx, both(nil))
		if err != nil || id == 0 || b.Commits != 1 || b.Members[0].Ratio != 9 || b.Members[1].Disabled {
			t.Errorf("transaction %d: %v, %d changes, %+v", id, err, b.Commits, b.Members[0])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What cannot be written is refused here, and by the device if it were sent.
func TestChange(t *testing.T) {
	c, b, _ := device(t, v4())
	for _, ch := range []Change{{}, {Ratio: -1}, {Session: "monitor-enabled"}, {State: "up"}, {State: "unchecked"}} {
		err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
			return s.Set(ctx, 0, b.Pool, Member{Name: "10.0.0.1:80", FullPath: "/Common/10.0.0.1:80"}, ch)
		})
		if providers.KindOf(err) != providers.Invalid {
			t.Errorf("%+v: %v", ch, err)
		}
	}
	for _, call := range b.Requests() {
		if strings.HasPrefix(call, http.MethodPatch) {
			t.Errorf("%s was sent", call)
		}
	}
	for _, body := range []string{`{"state":"up"}`, `{"session":"monitor-enabled"}`, `{"state":"unchecked"}`, `{"ratio":0}`} {
		err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
			err := s.send(ctx, call{method: http.MethodPatch, path: poolPath(b.Pool) + "/members/~Common~10.0.0.1:80", op: "test", body: json.RawMessage(body)})
			return err
		})
		if providers.KindOf(err) != providers.Invalid || b.Members[0].Ratio != 3 {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, tt := range []struct {
		from, to int
		want     Change
	}{{5, 0, Change{Session: "user-disabled"}}, {0, 7, Change{Ratio: 7, Session: "user-enabled"}}, {5, 7, Change{Ratio: 7}}} {
		if got := Reweigh(tt.from, tt.to); got != tt.want {
			t.Errorf("%d to %d: %+v, expected %+v", tt.from, tt.to, got, tt.want)
		}
	}
}

// The group's own line counts, not the worst of all groups.
func TestSync(t *testing.T) {
	c, b, _ := device(t)
	b.Group, b.Status = "pair", "Changes Pending"
	err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
		for group, status := range map[string]string{"pair": "Changes Pending", "/Common/pair": "Changes Pending", "device_trust_group": "In Sync", "else": "Changes Pending"} {
			got, err := s.Sync(ctx, group)
			if err != nil || got.Status != status || len(got.Details) != 3 {
				t.Errorf("%s: %+v, %v, expected %s", group, got, err, status)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// One use at a time, whoever asks; nobody waits longer than the caller.
func TestTurns(t *testing.T) {
	c, b, _ := device(t)
	err := c.Use(t.Context(), func(context.Context, *Session) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return c.Use(ctx, func(context.Context, *Session) error { return errors.New("two at once") })
	})
	if providers.KindOf(err) != providers.Unknown || !errors.Is(err, context.DeadlineExceeded) || b.Deleted != 1 {
		t.Errorf("got %v, %d tokens deleted", err, b.Deleted)
	}
}

// A device that echoes what it was sent has no secret of it in an error.
func TestDiscreet(t *testing.T) {
	const token = "A-TOKEN-OF-THE-DEVICE"
	for _, atLogin := range []bool{true, false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !atLogin && strings.HasSuffix(r.URL.Path, "/login") {
				_, _ = w.Write([]byte(`{"token":{"token":"` + token + `"}}`))
				return
			}
			f5test.Refuse(w, r.URL.Path+" "+string(body)+" "+r.Header.Get("X-F5-Auth-Token")+" "+token, http.StatusBadRequest)
		}))
		c, _, _ := device(t)
		var logged []string
		c.opts.Log = func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
		c.base = server.URL
		err := c.Use(t.Context(), func(ctx context.Context, s *Session) error { _, err := s.Pool(ctx, "/Common/shop"); return err })
		server.Close()
		said := fmt.Sprint(err, logged)
		if providers.KindOf(err) != providers.Invalid || strings.Contains(said, f5test.Password) || !atLogin && strings.Contains(said, token) {
			t.Errorf("got %s", said)
		}
		if !atLogin && len(logged) != 1 {
			t.Errorf("logged %q, expected that the token could not be deleted", logged)
		}
	}
}

// What is no answer of the device says nothing about it, a token goes nowhere
// else, and only the device can say that one has ended.
func TestNotItsOwn(t *testing.T) {
	for status, kind := range map[int]providers.Kind{
		301: providers.Unavailable, 302: providers.Unavailable, 307: providers.Unavailable, 400: providers.Unavailable, 401: providers.Unavailable,
		403: providers.Unavailable, 404: providers.Unavailable, 409: providers.Unavailable, 422: providers.Unavailable, 429: providers.Throttled, 502: providers.Unavailable,
	} {
		for _, body := range []string{"<html>log in</html>", `{"error":"of another"}`, `{"message":"no Route matched"}`, ""} {
			logins := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/login"):
					logins++
					_, _ = w.Write([]byte(`{"token":{"token":"T"}}`))
				case r.Method == http.MethodDelete:
				case r.URL.Path == "/my.policy":
					t.Errorf("status %d was followed with token %q", status, r.Header.Get("X-F5-Auth-Token"))
				default:
					w.Header().Set("Location", "/my.policy")
					w.WriteHeader(status)
					_, _ = w.Write([]byte(body))
				}
			}))
			c, _, _ := device(t)
			c.base = server.URL
			err := c.Use(t.Context(), func(ctx context.Context, s *Session) error { _, err := s.Pool(ctx, "/Common/shop"); return err })
			server.Close()
			if providers.KindOf(err) != kind || logins != 1 || kind == providers.Unavailable && status < 500 && !strings.Contains(providers.HintOf(err), "login page") {
				t.Errorf("status %d with %q: %v of kind %v, hint %q, %d logins", status, body, err, providers.KindOf(err), providers.HintOf(err), logins)
			}
		}
	}
}

// The logout has a time of its own, also when the caller's is over, and what
// is done before ends early enough for it.
func TestLogoutInTime(t *testing.T) {
	c, b, _ := device(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := c.Use(ctx, func(inner context.Context, _ *Session) error {
		<-inner.Done()
		if ctx.Err() != nil {
			t.Error("the caller's time is over before that of what is done")
		}
		<-ctx.Done()
		return inner.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) || b.Live() > 0 || b.Deleted != 1 {
		t.Errorf("got %v, %d tokens are left", err, b.Live())
	}
}

// A token that ends is replaced once, however many calls meet its end.
func TestRenewedOnce(t *testing.T) {
	c, b, _ := device(t, v4())
	err := c.Use(t.Context(), func(ctx context.Context, s *Session) error {
		b.Do(func() { b.Tokens = nil })
		l, err := s.Look(ctx, b.Pool, "", true)
		if l.Standby() != nil || l.Uncounted() != nil || l.Unlisted != nil || l.ReadOnly != nil {
			t.Errorf("got %+v", l)
		}
		return err
	})
	if err != nil || b.Live() > 0 || b.Deleted != 1 {
		t.Errorf("got %v, %d tokens are left, %d deleted", err, b.Live(), b.Deleted)
	}
}

// Answers that do not hold what they should are not taken for nothing.
func TestUnexpected(t *testing.T) {
	for name, body := range map[string]string{
		"empty": `{}`, "no token": `{"token":{}}`, "token with a path": `{"token":{"token":"../x"}}`, "not JSON": `<html>`, "list": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
			t.Cleanup(server.Close)
			c, _, _ := device(t)
			c.base = server.URL
			err := c.Use(t.Context(), func(context.Context, *Session) error { t.Error("logged in"); return nil })
			if providers.KindOf(err) != providers.Unknown {
				t.Errorf("got %v", err)
			}
		})
	}
	reads := map[string]func(context.Context, *Session) error{
		"pool":     func(ctx context.Context, s *Session) error { _, err := s.Pool(ctx, "/Common/shop"); return err },
		"members":  func(ctx context.Context, s *Session) error { _, err := s.members(ctx, "/Common/shop"); return err },
		"virtuals": func(ctx context.Context, s *Session) error { _, err := s.Virtuals(ctx, "/Common/shop"); return err },
		"device":   func(ctx context.Context, s *Session) error { _, err := s.Device(ctx); return err },
		"sync":     func(ctx context.Context, s *Session) error { _, err := s.Sync(ctx, "pair"); return err },
		"transaction": func(ctx context.Context, s *Session) error {
			_, err := s.Transact(ctx, func(int64) error { return nil })
			return err
		},
		"transactions": func(ctx context.Context, s *Session) error { _, err := s.Unfinished(ctx, "/Common/shop"); return err },
		"change": func(ctx context.Context, s *Session) error {
			return s.Set(ctx, 0, "/Common/shop", Member{Name: "a:1", FullPath: "/Common/a:1"}, Change{Ratio: 1})
		},
		"save":     func(ctx context.Context, s *Session) error { return s.Save(ctx) },
		"writable": func(ctx context.Context, s *Session) error { return s.Writable(ctx, "/Common/shop") },
	}
	byKind := []string{"virtuals", "change", "save"} // what has a kind is the device's
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			for _, body := range []string{
				`{}`, `{"items":[{}],"kind":"x"}`, `[]`, ``,
				`{"items":[{"name":"a:1","fullPath":"/Common/a:1","session":"user-enabled","state":"up"}],"kind":"x"}`,
			} {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/login") {
						_, _ = w.Write([]byte(`{"token":{"token":"T"}}`))
						return
					}
					_, _ = w.Write([]byte(body))
				}))
				c, _, _ := device(t)
				c.base = server.URL
				err := c.Use(t.Context(), read)
				server.Close()
				if slices.Contains(byKind, name) && strings.Contains(body, "kind") && err == nil {
					continue
				}
				if providers.KindOf(err) != providers.Unknown || err == nil {
					t.Errorf("%q: %v", body, err)
				}
			}
		})
	}
}

func FuzzStatuses(f *testing.F) {
	f.Add([]byte(`{"entries":{"https://localhost/mgmt/tm/ltm/pool/~Common~shop/members/~Common~10.0.0.1:80/stats":{"nestedStats":{"entries":{"nodeName":{"description":"/Common/10.0.0.1"},"port":{"value":80},"serverside.curConns":{"value":1},"status.availabilityState":{"description":"available"},"status.enabledState":{"description":"enabled"}}}}}}`))
	f.Add([]byte(`{"entries":{"x":{"entries":{"status.availabilityState":{"description":"a"}}},"%zz/stats":{"value":"text"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n node
		if json.Unmarshal(data, &n) != nil {
			return
		}
		for key, entry := range n.Entries {
			if name, st, ok := memberStatus(key, entry); ok && (name == "" || st.Availability == "" || st.Enabled == "") {
				t.Errorf("member %q with %+v counts", name, st)
			}
		}
		for _, text := range n.all("details") {
			_ = groupStatus.FindStringSubmatch(text)
		}
	})
}
