package cli

import (
	"bytes"
	"context"
	"io"

	"github.com/spf13/cobra"
)

// completionJSON is the document of `manent completion --json`.
type completionJSON struct {
	Shell  string `json:"shell"`  // bash, zsh, fish or powershell
	Script string `json:"script"` // to be sourced
}

func (a *app) newCompletion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		Short:   "print the script that completes verbs and flags in a shell",
		Example: "  source <(manent completion bash)",
		Args:    cobra.ArbitraryArgs,
	}
	return a.verb(cmd, func(_ context.Context, args []string) (view, error) {
		root := cmd.Root()
		write := map[string]func(io.Writer) error{
			"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
			"zsh":        root.GenZshCompletion,
			"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
			"powershell": root.GenPowerShellCompletionWithDesc,
		}
		if len(args) != 1 || write[args[0]] == nil {
			return view{}, usage("for example `manent completion bash`", "found %q, expected one of bash, zsh, fish, powershell", args)
		}
		var out bytes.Buffer
		err := write[args[0]](&out)
		return view{JSON: completionJSON{Shell: args[0], Script: out.String()}, Text: out.String()}, err
	})
}
