package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionJSON is the document of `manent version --json`.
type versionJSON struct {
	Version  string `json:"version"`            // of the release, devel for none
	Commit   string `json:"commit,omitempty"`   // of the sources
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`                 // version of the compiler
	Platform string `json:"platform"`           // system/processor
}

func (a *app) newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "print which build this is", Example: "  manent version --json"}
	return a.verb(cmd, func(context.Context, []string) (view, error) {
		v := versionJSON{Version: a.version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		v.Commit, v.Modified = commitOf()
		text := "manent " + v.Version
		if v.Commit != "" {
			text += fmt.Sprintf(" (%.12s)", v.Commit)
		}
		return view{JSON: v, Text: text + ", " + v.Go + ", " + v.Platform}, nil
	})
}

// commitOf is the commit that this build is of, "" when it does not know.
func commitOf() (commit string, modified bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return commit, modified
}
