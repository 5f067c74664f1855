package cli

import (
	"fmt"
	"strings"

	"github.com/manent/action/providers/router"
	"github.com/manent/action/runner/config"
)

// checkOthers says who else may write the router's weights, and what to tell
// them, also when the router does not answer. Most systems do not show who does,
// so that it is no warning; where one does, the plugin looks for them.
func checkOthers(c *checks, cfg config.Config, notes router.Notes, seen router.Reading) {
	name := cfg.Plugin.Name
	if cfg.Traffic.Router != nil {
		name = cfg.Traffic.Router.Provider
	}
	var tools, remedies, by []string
	for _, o := range notes.Others {
		tools = append(tools, o.Tool)
		remedies = append(remedies, o.Tool+": "+o.Remedy)
	}
	if len(tools) == 0 {
		return
	}
	for _, p := range seen.Parts {
		if p.By != "" {
			by = append(by, fmt.Sprintf("%s was last changed by %s", p.ID, p.By))
		}
	}
	if len(by) == 0 {
		by = []string{notes.Seen}
	}
	c.list = append(c.list, checkJSON{
		Name: "other tools", Status: checkOK,
		Text: fmt.Sprintf("the weights of %s may also be written by %s: drift, which pauses a rollout; %s", name, strings.Join(tools, "; "), strings.Join(by, "; ")),
		Hint: strings.Join(remedies, "\n            ") + "\n            see docs/gitops.md",
	})
}
