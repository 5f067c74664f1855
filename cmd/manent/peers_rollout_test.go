//go:build peers

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/manent/action/state"
)

// byPrometheus is a rollout in five short steps, judged by what Prometheus
// has read from the versions themselves.
const byPrometheus = `
rollout:
  traffic: {steps: [1, 5, 25, 50, 100], bake: 3s, maxBake: 1m, finalBake: 3s, scaleDownDelay: 1s}
  providers:
    prometheus: {url: "$PROMETHEUS"}
  health:
    interval: 500ms
    grace: 20s
    metrics:
      - name: errors
        query: sum(rate(http_requests_total{slot="{track}",code="500"}[2s])) / sum(rate(http_requests_total{slot="{track}"}[2s]))
        max: 0.02
      - name: more-errors
        query: sum(rate(http_requests_total{slot="{track}",code="500"}[2s])) / sum(rate(http_requests_total{slot="{track}"}[2s]))
        compare: stable
        maxDelta: 0.02
`

// setting is where a rollout takes place.
type setting struct {
	name  string
	mode  string // of NGINX
	ssh   bool   // NGINX is reached over SSH
	http  bool   // the state is reached over HTTP
	nginx string
}

func settings() []setting {
	return []setting{
		{name: "by user, on this machine, state in a repository", mode: "split_clients", nginx: localNGINX},
		{name: "by weight, over SSH, state behind HTTP", mode: "weight", nginx: remoteNGINX, ssh: true, http: true},
	}
}

// Real requests move from slot a to slot b in five steps, none of them fails,
// and they stay there.
func TestPeersPromoted(t *testing.T) {
	t.Parallel()
	for _, where := range settings() {
		t.Run(where.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			repository := s.settle(where)
			visitors := s.crowd(150)
			out := s.exits(0, "run", "--version", "2.0")
			visitors.stop().unbroken(t)
			for _, share := range []string{"1", "5", "25", "50", "100"} {
				for _, line := range []string{"traffic@%s: share %[1]s %% in force", "gate@traffic@%s: stage %[1]s%% passed"} {
					if line = fmt.Sprintf(line, share); !strings.Contains(out, line) {
						t.Errorf("%q was not printed:\n%s", line, out)
					}
				}
			}
			s.servesOnly("b")
			doc, _ := s.status()
			if doc.Rollout.Status != state.Completed || doc.Passes[0].Serving != state.SlotB || doc.Lease != nil {
				t.Errorf("ended as %s, with slot %s serving and lease %v", doc.Rollout.Status, doc.Passes[0].Serving, doc.Lease)
			}
			s.kept(repository, doc)

			// The next version goes the other way.
			s.exits(0, "run", "--version", "3.0", "--until", "gate@traffic@1")
			s.exits(0, "revert", "--version", "3.0")
			s.servesOnly("b")
		})
	}
}

// A candidate that answers one request in twenty with an error is returned by
// itself, and gets no request afterwards.
func TestPeersReturned(t *testing.T) {
	t.Parallel()
	for _, where := range settings() {
		t.Run(where.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			repository := s.settle(where)
			s.b.every.Store(20)
			visitors := s.crowd(150)
			out := s.exits(1, "run", "--version", "2.0")
			if seen := visitors.stop(); len(seen.Failed) > 0 || seen.Errors["a"] > 0 || seen.Errors["b"] == 0 {
				t.Errorf("of %d requests %d failed, errors %v, expected some of b", seen.Sent, len(seen.Failed), seen.Errors)
			}
			if !strings.Contains(out, "all traffic is at slot a") {
				t.Errorf("the return was not printed:\n%s", out)
			}
			s.servesOnly("a")
			doc, _ := s.status()
			if doc.Rollout.Status != state.Returned || !strings.HasPrefix(doc.Rollout.Failure.Step, "gate@traffic@") {
				t.Errorf("ended as %s, failed at %+v", doc.Rollout.Status, doc.Rollout.Failure)
			}
			s.kept(repository, doc)
			s.exits(1, "run", "--version", "2.0") // says so again, and begins nothing
			s.servesOnly("a")
		})
	}
}

// Somebody changes the split by hand: the next reading is void and the rollout
// pauses, with the share as it was found. Approved, it goes on from its own
// share; rejected, it returns.
func TestPeersDrift(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"approve", "reject"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			where := settings()[0]
			n := s.nginx(where.mode)
			s.prometheus()
			s.repository()
			s.configure(head + byPrometheus + where.nginx)
			s.serve(n)
			visitors := s.crowd(150)
			run := s.start("run", "--version", "2.0")
			run.prints("traffic@25: share 25 % in force")
			byHand(n, "40")
			if code := run.wait(); code != 3 {
				t.Fatalf("ended with %d, expected 3\n%s\n%s", code, &run.out, &run.err)
			}
			doc, _ := s.status()
			if doc.Rollout.Status != state.Drifted || !strings.Contains(n.Read("manent/split.conf"), "40% b;") {
				t.Errorf("status is %s and the file\n%s", doc.Rollout.Status, n.Read("manent/split.conf"))
			}
			s.exits(3, "run", "--version", "2.0")
			s.answer(0, verb)
			if verb == "approve" {
				out := s.exits(0, "run", "--version", "2.0")
				if !strings.Contains(out, "traffic@25: share 25 % in force") {
					t.Errorf("did not overwrite what it found:\n%s", out)
				}
				s.servesOnly("b")
			} else {
				s.servesOnly("a") // reject has returned it itself
				s.exits(1, "run", "--version", "2.0")
			}
			visitors.stop().unbroken(t)
		})
	}
}

// settle brings everything up that a setting names.
func (s *shop) settle(where setting) (repository string) {
	s.t.Helper()
	n := s.nginx(where.mode)
	if where.ssh {
		s.overSSH()
	}
	if where.http {
		repository = s.repositoryOverHTTP()
	} else {
		repository = s.repository()
	}
	s.prometheus()
	s.configure(head + byPrometheus + where.nginx)
	s.serve(n)
	return repository
}

// servesOnly demands that new requests reach one slot only.
func (s *shop) servesOnly(slot string) {
	s.t.Helper()
	seen, _ := s.visits(people("late", 200))
	if seen.Slots[slot] != 200 || len(seen.Errors) > 0 {
		s.t.Errorf("clients saw %+v, expected 200 answers of %s", seen, slot)
	}
}

// kept demands that the repository has the document as the newest of a line of
// commits, with its readings beside it, and no secret anywhere.
func (s *shop) kept(repository string, doc state.Document) {
	s.t.Helper()
	const ref = "refs/manent/shop/web/prod"
	if n := s.git("--git-dir", repository, "rev-list", "--count", ref); n != fmt.Sprint(doc.Seq) {
		s.t.Errorf("%s commits for %d writes", n, doc.Seq)
	}
	files := s.git("--git-dir", repository, "ls-tree", "-r", "--name-only", ref)
	for _, stage := range doc.Rollout.Stages {
		for _, r := range stage.Readings {
			if !strings.Contains(files, r.Object) {
				s.t.Errorf("no object %s among\n%s", r.Object, files)
			}
		}
	}
	all := s.git("--git-dir", repository, "log", "--patch", ref)
	for _, line := range s.env {
		_, secret, _ := strings.Cut(line, "=")
		for _, word := range strings.Split(strings.TrimSpace(secret), "\n") {
			if strings.Contains(all, word) {
				s.t.Errorf("the state holds %q", word)
			}
		}
	}
}
