// Package f5test is a stand-in for a BIG-IP's iControl REST interface. It does
// and refuses what F5's documentation and public reports say, and makes the
// test fail on a request that a client must not send. It must not know who
// asks, nor why.
package f5test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The user that can log in, and the most tokens it may have.
const (
	User      = "manent"
	Password  = "p4ssw0rd-of-manent"
	MaxTokens = 100
)

// BigIP is one device. Change its fields under Do.
type BigIP struct {
	t  *testing.T
	mu sync.Mutex

	Role      string // manager, operator or guest, on the pool's partition
	Failover  string // of this device
	Pool      string // full path
	Mode      string
	MinActive int
	Members   []*Member
	Virtuals  []map[string]any
	FlatStats bool   // statistics as some versions nest them
	Uncounted string // member that the statistics leave out

	Group    string // device group, "" for a device on its own
	Status   string // of the group
	Behind   bool   // a peer has changes that this device lacks
	SyncSays string // commandResult of the next syncs; they do nothing then
	SyncTook int    // looks that a sync is under way for
	SaveSays string
	Unsaved  bool
	Syncs    int
	Saves    int

	Looks      int    // at a transaction, before it is done
	FailWith   string // the next commits fail with this reason
	FailAtOnce bool   // and the commit itself is answered so, with 409
	Expire     bool   // transactions are gone before they are committed
	Forget     bool   // transactions are gone when they are done
	Ignore     bool   // transactions complete and change nothing
	After      func() // runs once, after the next commit was carried out, under Do
	Commits    int    // transactions that changed something
	Changes    int    // of members, without a transaction

	Forbid   string // calls of this path are refused to the user
	Plain    bool   // the members are not in the pool's answer
	Busy     int    // the next calls are answered that another task is at work
	Tokens   []string
	Deleted  int
	made     int
	next     int64
	open     map[int64]*transaction
	requests []string
}

// Member is a member of the pool, as the device has it.
type Member struct {
	Name, Partition, Address string
	Ratio                    int
	Disabled, Forced         bool   // session user-disabled, state user-down
	Monitor                  string // up, down, unchecked, checking
	Parent                   bool   // the node is disabled
	Priority                 int
	Connections              int
}

// New makes an active device without a peer, with the pool /Common/shop by
// ratio and the given members.
func New(t *testing.T, members ...*Member) *BigIP {
	return &BigIP{
		t: t, Role: "manager", Failover: "active", Pool: "/Common/shop", Mode: "ratio-member", Members: members,
		Status: "In Sync", open: map[int64]*transaction{}, next: 1389812351,
	}
}

// Do changes the device, as somebody else would.
func (b *BigIP) Do(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// Requests are the calls so far, METHOD PATH, without logins and logouts.
func (b *BigIP) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Live is the number of tokens that were not deleted.
func (b *BigIP) Live() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.Tokens)
}

// request is one call with its body.
type request struct {
	*http.Request
	body []byte
}

// IsWrite reports whether a call carries a transaction out, or changes a
// member without one.
func IsWrite(r *http.Request) bool {
	inTransaction := r.Header.Get("X-F5-REST-Coordination-Id") != ""
	return r.Method == http.MethodPatch && !inTransaction && !strings.HasSuffix(r.URL.Path, ".invalid:1")
}

// answer is what a call is answered with.
type answer struct {
	code int
	body any
}

func ok(body any) answer { return answer{http.StatusOK, body} }

// refuse is an error as the interface words it.
func refuse(code int, format string, args ...any) answer {
	return answer{code, map[string]any{"code": code, "message": fmt.Sprintf(format, args...), "errorStack": []any{}, "apiError": 3}}
}

// Refuse answers as the interface does.
func Refuse(w http.ResponseWriter, text string, code int) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(refuse(code, "%s", text).body) // the client may be gone
}

// ServeHTTP implements http.Handler.
func (b *BigIP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	b.mu.Lock()
	a := b.serve(request{r, body})
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(a.code)
	if a.body != nil {
		_ = json.NewEncoder(w).Encode(a.body) // the client may be gone
	}
}

func (b *BigIP) serve(r request) answer {
	if len(r.body) > 0 && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		b.t.Errorf("%s %s: Content-Type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	}
	if r.Header.Get("Authorization") != "" {
		b.t.Errorf("%s %s: basic authentication, which works for local users only", r.Method, r.URL.Path)
	}
	if b.Busy > 0 {
		b.Busy--
		return refuse(http.StatusServiceUnavailable, "There is an active asynchronous task executing.")
	}
	if r.URL.Path == "/mgmt/shared/authn/login" {
		return b.login(r)
	}
	if !slices.Contains(b.Tokens, r.Header.Get("X-F5-Auth-Token")) {
		return refuse(http.StatusUnauthorized, "X-F5-Auth-Token does not exist.")
	}
	if token, found := strings.CutPrefix(r.URL.Path, "/mgmt/shared/authz/tokens/"); found {
		return b.logout(r, token)
	}
	b.requests = append(b.requests, r.Method+" "+r.URL.Path)
	if b.Forbid != "" && r.URL.Path == b.Forbid {
		return refuse(http.StatusForbidden, "Operation is not allowed for the user %s", User)
	}
	if r.Method == http.MethodPut {
		b.t.Errorf("PUT %s: a PUT replaces what it does not name", r.URL.Path)
		return refuse(http.StatusBadRequest, "Operation is not supported.")
	}
	return b.route(r)
}

// route finds the handler of a call.
func (b *BigIP) route(r request) answer {
	pool := "/mgmt/tm/ltm/pool/" + strings.ReplaceAll(b.Pool, "/", "~")
	path := r.URL.Path
	member, isMember := strings.CutPrefix(path, pool+"/members/")
	id, isTransaction := strings.CutPrefix(path, "/mgmt/tm/transaction")
	switch {
	case r.Method == http.MethodGet && path == pool:
		return b.pool(r)
	case r.Method == http.MethodGet && path == pool+"/members":
		return b.members()
	case r.Method == http.MethodGet && path == pool+"/members/stats":
		return b.stats()
	case r.Method == http.MethodPatch && isMember:
		return b.patch(r, member)
	case r.Method == http.MethodGet && path == "/mgmt/tm/ltm/virtual":
		return ok(map[string]any{"kind": "tm:ltm:virtual:virtualcollectionstate", "items": b.Virtuals})
	case isTransaction:
		return b.transaction(r, strings.TrimPrefix(id, "/"))
	case strings.HasPrefix(path, "/mgmt/tm/cm") || path == "/mgmt/tm/sys/config":
		return b.cluster(r)
	case strings.HasPrefix(path, "/mgmt/tm/ltm/pool/") && (r.Method == http.MethodGet || strings.HasSuffix(path, ".invalid:1")):
		return refuse(http.StatusNotFound, "01020036:3: The requested Pool (%s) was not found.", strings.ReplaceAll(strings.TrimPrefix(path, "/mgmt/tm/ltm/pool/"), "~", "/"))
	}
	b.t.Errorf("unexpected request %s %s", r.Method, r.URL)
	return refuse(http.StatusNotFound, "Public URI path not registered: %s", path)
}

// login gives a token for exactly what the documentation says to send.
func (b *BigIP) login(r request) answer {
	var in map[string]string
	if err := json.Unmarshal(r.body, &in); err != nil || r.Method != http.MethodPost || len(in) != 3 || in["loginProviderName"] != "tmos" {
		b.t.Errorf("%s %s: login that the documentation does not know: %v", r.Method, r.URL.Path, err)
		return refuse(http.StatusBadRequest, "malformed")
	}
	switch {
	case in["username"] != User || in["password"] != Password:
		return refuse(http.StatusUnauthorized, "Authentication failed.")
	case len(b.Tokens) >= MaxTokens:
		return refuse(http.StatusBadRequest, "user 600e1b53-fa1b-3939-a101-52cee2531001 has reached maximum active login tokens")
	}
	b.made++
	token := fmt.Sprintf("TOKEN%021d", b.made)
	b.Tokens = append(b.Tokens, token)
	return ok(map[string]any{"username": User, "loginProviderName": "tmos", "token": map[string]any{
		"token": token, "name": token, "userName": User, "timeout": 1200, "kind": "shared:authz:tokens:authtokenitemstate",
	}})
}

func (b *BigIP) logout(r request, token string) answer {
	if r.Method != http.MethodDelete {
		b.t.Errorf("%s of a token", r.Method)
	}
	b.Tokens = slices.DeleteFunc(b.Tokens, func(t string) bool { return t == token })
	b.Deleted++
	return ok(map[string]any{"token": token})
}
