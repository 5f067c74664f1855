package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/manent/action/cmd/internal/wire"
	"github.com/manent/action/runner/config"
)

func (a *app) newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of the configuration, for editors",
		Long: `Prints the JSON Schema of an environment's file. Editors that know YAML schemas
then complete and check keys while you type; validate also knows what the parts
of a file have to do with each other.

With --external it is the schema of what a plugin external is asked and answers.`,
		Example: "  manent schema > manent.schema.json\n  manent schema --external > external.schema.json",
	}
	external := cmd.Flags().Bool("external", false, "the schema of the protocol of plugins that are programs of their own")
	return a.verb(cmd, func(context.Context, []string) (view, error) {
		if *external {
			data, err := wire.ExternalSchema()
			return view{JSON: json.RawMessage(data), Text: string(data)}, err
		}
		data, err := config.Schema(a.host.Catalog())
		return view{JSON: json.RawMessage(data), Text: string(data)}, err
	})
}
