package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
	"github.com/manent/action/state"
)

func routersPage() string {
	var b strings.Builder
	b.WriteString("# Routers\n\n" + generatedNote + `
What splits the traffic between the slots, by ` + "`traffic.router.provider`" + ` or by the plugin. The settings
of each are in [configuration.md](configuration.md), the long form is in its own page, and how to
live beside Argo CD, Flux, Terraform, AS3 and Ansible is in [gitops.md](gitops.md).

A share is refused by ` + "`manent validate`" + ` when the router cannot give it within
` + "`rollout.traffic.shareTolerance`" + `; where the servers decide, the smallest is named.

| router | writes | resolution | a write based on old weights |
|---|---|---|---|
`)
	entries := wire.RouterEntries()
	for _, e := range entries {
		n := e.Traits.Notes
		stale := "a race window is left: "
		switch {
		case strings.Contains(n.Condition, "`conditional`"):
			stale = "as declared: "
		case e.Traits.Conditional:
			stale = "refused: "
		}
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s | %s |\n", e.Name, n.Page, cell(e.Traits.Unit), cell(n.Resolution), cell(stale+n.Condition))
	}
	b.WriteString("\n| router | testers | clients that stay where they are | least permission |\n|---|---|---|---|\n")
	for _, e := range entries {
		n := e.Traits.Notes
		testers := n.Testers
		if testers == "" {
			testers = "no: probe the targets directly"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.Name, cell(testers), cell(n.Sticky), cell(n.Permissions))
	}
	b.WriteString("\n| router | known limits | unproven |\n|---|---|---|\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Name, cell(strings.Join(e.Traits.Notes.Limits, "; ")), cell(e.Unproven))
	}
	b.WriteString(othersTable(entries))
	return b.String()
}

func othersTable(entries []router.Entry) string {
	var b strings.Builder
	b.WriteString("\n## Who else may write the weights\n\n| router | tool | what to tell it |\n|---|---|---|\n")
	for _, e := range entries {
		for _, o := range e.Traits.Notes.Others {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Name, cell(o.Tool), cell(o.Remedy))
		}
	}
	b.WriteString("\n| router | what shows who wrote them |\n|---|---|\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "| %s | %s |\n", e.Name, cell(e.Traits.Notes.Seen))
	}
	return b.String()
}

// TestRoutersAreDescribed: no router of this build leaves anything out of the
// page, what it says fits what it can do, and its own page exists.
func TestRoutersAreDescribed(t *testing.T) {
	gitops, err := os.ReadFile("../../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range wire.RouterEntries() {
		t.Run(e.Name, func(t *testing.T) {
			n := e.Traits.Notes
			page, _, _ := strings.Cut(n.Page, "#")
			if _, err := os.Stat(filepath.Join("../../../docs", page)); err != nil || page == "" {
				t.Errorf("page %q: %v", n.Page, err)
			}
			for what, text := range map[string]string{
				"unit": e.Traits.Unit, "resolution": n.Resolution, "condition": n.Condition, "stickiness": n.Sticky,
				"permissions": n.Permissions, "limits": strings.Join(n.Limits, ""), "who wrote": n.Seen,
			} {
				if text == "" {
					t.Errorf("nothing about its %s", what)
				}
			}
			if e.Name != "external" && (n.Testers == "") != (e.Traits.Testers == "") {
				t.Errorf("testers by %q are described as %q", e.Traits.Testers, n.Testers)
			}
			if len(n.Others) == 0 {
				t.Error("nobody else is named")
			}
			describeOthers(t, string(gitops), n.Others)
		})
	}
}

// describeOthers: the page for it says of each tool what doctor says.
func describeOthers(t *testing.T, page string, others []router.Other) {
	t.Helper()
	for _, o := range others {
		tool, _, _ := strings.Cut(o.Tool, ",")
		tool, _, _ = strings.Cut(tool, " and ")
		if o.Remedy == "" || !strings.Contains(page, tool) {
			t.Errorf("docs/gitops.md says nothing about %s", o.Tool)
		}
	}
}

// TestOtherTools: one finding for a router, with what to tell each tool, and
// who wrote last where that is known; nothing where nobody else is known to.
func TestOtherTools(t *testing.T) {
	notes := router.Notes{Seen: "see the audit log", Others: []router.Other{{Tool: "AS3", Remedy: "declare nothing"}, {Tool: "Ansible", Remedy: "leave ratio out"}}}
	cfg := config.Config{Traffic: config.Network{Router: &config.Router{Provider: "f5"}}}
	var c checks
	checkOthers(&c, cfg, notes, router.Reading{Parts: []router.Part{{}}})
	checkOthers(&c, cfg, notes, router.Reading{Parts: []router.Part{{PartWeights: state.PartWeights{ID: "/Common/shop"}, By: "admin"}}})
	checkOthers(&c, cfg, router.Notes{Seen: "nothing"}, router.Reading{})
	if len(c.list) != 2 || c.failed() != 0 {
		t.Fatalf("%+v", c.list)
	}
	for i, want := range []string{"see the audit log", "/Common/shop was last changed by admin"} {
		got := c.list[i]
		if got.Name != "other tools" || got.Status != checkOK || !strings.Contains(got.Text, "f5 may also be written by AS3; Ansible: drift") || !strings.HasSuffix(got.Text, want) {
			t.Errorf("%+v, want %q", got, want)
		}
		if !strings.Contains(got.Hint, "AS3: declare nothing") || !strings.Contains(got.Hint, "Ansible: leave ratio out") || !strings.Contains(got.Hint, "docs/gitops.md") {
			t.Errorf("hint %q", got.Hint)
		}
	}
}
