package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/manent/action/providers/store/storetest"
)

// TestDoctorRefusesACarelessStore: a store that takes any write is named by
// doctor before a rollout trusts it, one that keeps conditions passes.
func TestDoctorRefusesACarelessStore(t *testing.T) {
	env := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s3cret-k3y", "AWS_REGION": "eu-1"}
	for _, row := range []struct {
		door func(http.Handler) http.Handler
		code int
		says string
	}{
		{storetest.Careless, exitFailed, "took a create over a key that exists"},
		{storetest.OpenDoor, exitDone, "refuses a write from an old revision"},
	} {
		a := newApp("test", func(name string) string { return env[name] }, t.TempDir())
		var out, errs bytes.Buffer
		a.stdin, a.stdout, a.stderr = strings.NewReader(""), &out, &errs
		code := a.execute(t.Context(), []string{"doctor", "--state", storetest.S3(t, row.door)})
		if text := out.String() + errs.String(); code != row.code || !strings.Contains(text, row.says) {
			t.Errorf("code %d, expected %d and %q in\n%s", code, row.code, row.says, text)
		}
		if strings.Contains(out.String()+errs.String(), "s3cret-k3y") {
			t.Error("the secret key was printed")
		}
	}
}
