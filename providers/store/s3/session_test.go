package s3_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/aws/awstest"
	"github.com/manent/action/providers/api/identity/identitytest"
	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/s3"
	"github.com/manent/action/providers/store/storetest"
)

// inSession is a store whose credentials are sessions of a role.
func inSession(t *testing.T, tries string) (*awstest.STS, store.Store) {
	t.Helper()
	jobs := identitytest.New(t)
	sts := awstest.New(t, jobs)
	vars := jobs.GitHub()
	maps.Copy(vars, sts.Vars())
	vars["AWS_MAX_ATTEMPTS"] = tries
	s, err := s3.Open(providers.Env{Getenv: func(name string) string { return vars[name] }}, storetest.S3(t, sts.S3))
	if err != nil {
		t.Fatal(err)
	}
	return sts, s
}

// TestSessions: a store outlives the sessions that it is read and written in.
func TestSessions(t *testing.T) {
	sts, s := inSession(t, "2")
	var revision store.Revision
	var err error
	for _, body := range []string{"one", "two", "three"} {
		if revision, err = s.Put(t.Context(), storetest.Key, store.Change{Data: []byte(body)}, revision); err != nil {
			t.Fatal(err)
		}
		sts.End()
		if data, at, err := s.Get(t.Context(), storetest.Key); err != nil || string(data) != body || at != revision {
			t.Fatalf("%q at %q, error %v", data, at, err)
		}
	}
	if n := len(sts.Sessions()); n != 4 {
		t.Errorf("%d sessions, expected one for each that has ended and one more", n)
	}
}

// TestNoSession: what is wrong with the service of sessions is told as such,
// and is never a conflict nor a lack of the object.
func TestNoSession(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		code   string
		kind   providers.Kind
	}{
		"away":    {http.StatusServiceUnavailable, "ServiceUnavailable", providers.Unavailable},
		"refused": {http.StatusForbidden, "AccessDenied", providers.Denied},
		"404":     {http.StatusNotFound, "NoSuchKey", providers.Invalid},
		"409":     {http.StatusConflict, "Conflict", providers.Unavailable},
		"412":     {http.StatusPreconditionFailed, "PreconditionFailed", providers.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			sts, s := inSession(t, "1")
			sts.Answer(tc.status, tc.code)
			wantFault(t, s, tc.kind)
			_, _, err := s.Get(t.Context(), storetest.Key)
			if err == nil || !strings.Contains(err.Error(), "aws: session of "+awstest.Role) {
				t.Errorf("error %v", err)
			}
			sts.Answer(0, "")
			if _, _, err := s.Get(t.Context(), storetest.Key); err != nil {
				t.Errorf("error %v once sessions are given again", err)
			}
		})
	}
}

// TestSessionOfKeys: nobody renews a session whose keys were exported.
func TestSessionOfKeys(t *testing.T) {
	address := storetest.S3(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusBadRequest, "ExpiredToken") })
	})
	_, _, err := open(t, address).Get(t.Context(), storetest.Key)
	isFault(t, "get", err, providers.Denied)
	if !strings.Contains(providers.HintOf(err), "AWS_ROLE_ARN") {
		t.Errorf("hint %q", providers.HintOf(err))
	}
}
