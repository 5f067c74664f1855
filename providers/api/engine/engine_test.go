package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/host/hosttest"
)

// answering is an engine that gives one answer.
func answering(res host.Result) Engine {
	return Engine{Program: "docker", Host: &hosttest.Machine{Program: func([]string) host.Result { return res }}}
}

func TestWhatARefusalMeans(t *testing.T) {
	for said, tc := range map[string]struct {
		op, exit string
		kind     providers.Kind
		hint     string
	}{
		"pull access denied for x":                                 {"pull", "1", providers.Denied, "docker login"},
		"unauthorized: authentication required":                    {"pull", "1", providers.Denied, "docker login"},
		"manifest for x:1 not found: manifest unknown":             {"pull", "1", providers.NotFound, "push the image first"},
		"Get https://x/v2/: dial tcp: i/o timeout":                 {"pull", "1", providers.Unavailable, ""},
		"write /var/lib/docker/x: no space left on device":         {"pull", "1", providers.Invalid, "make room"},
		"permission denied while trying to connect to the socket":  {"container", "1", providers.Denied, "allowed to use docker"},
		"Cannot connect to the Docker daemon. Is it running?":      {"container", "1", providers.Unavailable, ""},
		"Bind for 0.0.0.0:80 failed: port is already allocated":    {"run", "125", providers.Invalid, "not brought back"},
		"sh: docker: not found":                                    {"container", "127", providers.Invalid, "the target needs docker"},
		"/tmp, for temporary files, cannot be written":             {"check", "21", providers.Invalid, ""},
		"the environment arrived incomplete":                       {"run", "23", providers.Unknown, ""},
		"Error response from daemon: something nobody has thought": {"stop", "1", providers.Unavailable, ""},
	} {
		t.Run(said, func(t *testing.T) {
			var exit int
			if err := json.Unmarshal([]byte(tc.exit), &exit); err != nil {
				t.Fatal(err)
			}
			_, err := answering(host.Result{Exit: exit, Stderr: []byte(said)}).Do(t.Context(), tc.op, host.Command{Args: []string{"docker"}})
			if err == nil || providers.KindOf(err) != tc.kind || !strings.Contains(providers.HintOf(err), tc.hint) || !strings.Contains(err.Error(), said) {
				t.Errorf("error %v (%v), hint %q, expected %v and %q", err, providers.KindOf(err), providers.HintOf(err), tc.kind, tc.hint)
			}
		})
	}
}

func TestWhatIsReadOfAContainer(t *testing.T) {
	for text, want := range map[string]string{
		`[{"Id":"1","State":{"Status":"running","Health":{"Status":"healthy"}}}]`:       "running healthy",
		`[{"Id":"1","State":{"Status":"running","Healthcheck":{"Status":"starting"}}}]`: "running starting",
		`[{"Id":"1","State":{"Status":"running","Health":{"Status":"none"}}}]`:          "running ",
		`[{"Id":"1","State":{"Status":"running","Health":null}}]`:                       "running ",
		`[{"Id":"1","State":{"Status":"exited"}}]`:                                      "ended ",
		`[{"Id":"1","State":{"Status":"stopped"}}]`:                                     "ended ",
		`[{"Id":"1","State":{"Status":"restarting"}}]`:                                  " ",
	} {
		var all []Container
		if err := answering(host.Result{Stdout: []byte(text)}).Inspect(t.Context(), "container", "1", &all); err != nil || len(all) != 1 {
			t.Fatalf("%s: %d containers, error %v", text, len(all), err)
		}
		got := map[bool]string{all[0].Running(): "running"}[true] + map[bool]string{all[0].Ended(): "ended"}[true] + " " + all[0].Health()
		if got != want {
			t.Errorf("%s: %q, expected %q", text, got, want)
		}
	}
}

func TestAnAnswerThatIsNone(t *testing.T) {
	var all []Container
	err := answering(host.Result{Stdout: []byte(`[{"Id": "hunter2`)}).Inspect(t.Context(), "container", "1", &all)
	if err == nil || providers.KindOf(err) != providers.Unknown || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v (%v), expected an unknown one that quotes nothing", err, providers.KindOf(err))
	}
}

func TestDigests(t *testing.T) {
	i := Image{RepoDigests: []string{"other/app@sha256:1", "docker.io/library/app@sha256:2", "x.test/app@sha256:3"}}
	for repo, want := range map[string]string{"other/app": "sha256:1", "x.test/app": "sha256:3", "library/app": "sha256:2", "app": "sha256:2", "none": ""} {
		if got := i.DigestOf(repo); got != want {
			t.Errorf("%s has digest %q, expected %q", repo, got, want)
		}
	}
}
