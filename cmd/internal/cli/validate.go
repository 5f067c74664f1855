package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/manent/action/runner/config"
	"github.com/manent/action/runner/plan"
)

// validateJSON is the document of `manent validate --json`.
type validateJSON struct {
	Valid    bool             `json:"valid"`    // no problem but warnings
	Problems []config.Problem `json:"problems"` // severity error, not in build or warning

	FalseAlarm     float64 `json:"falseAlarm,omitempty"`     // chance that the metrics with analysis return a version that is no worse, 0–1
	FalseAlarmText string  `json:"falseAlarmText,omitempty"` // the same in a sentence, with the remedy
}

func (a *app) newValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate -c FILE",
		Short: "check a configuration and print every problem at once",
		Long: `Checks the file, and the application's descriptor if there is one, without
asking anybody: every problem with its place, what was found, what was expected
and what to do. Warnings are told apart. Nothing is read but these files.`,
		Example: "  manent validate -c envconfig/shop/web/prod.yml",
	}
	return a.verb(a.fileFlags(cmd), func(context.Context, []string) (view, error) { return a.validate() })
}

func (a *app) validate() (view, error) {
	if a.file == "" {
		return view{}, need("-c FILE", "no configuration is named")
	}
	cfg, problems := config.Load(config.Options{
		File: a.file, Descriptor: a.descriptorFile(), Anonymous: true, Catalog: a.host.Catalog(),
	})
	doc := validateJSON{Valid: problems.Err() == nil, Problems: problems}
	if doc.Problems == nil {
		doc.Problems = config.Problems{}
	}
	for _, p := range problems.Of(config.Warning) {
		a.complain(p.String(), p.Hint)
	}
	doc.FalseAlarm, doc.FalseAlarmText = plan.FalseAlarm(cfg, a.host.Catalog())
	if bad := problems.Of(config.Error, config.Absent); len(bad) > 0 {
		return view{JSON: doc}, &problemsError{problems: bad}
	}
	text := fmt.Sprintf("%s is valid", a.file)
	if cfg.Project == "" || cfg.Application == "" || cfg.Environment == "" {
		text += ", but to be run it has to name project, application and environment, or lie in envconfig/<project>/<application>/<environment>.yml"
	}
	if doc.FalseAlarmText != "" {
		text += "\n" + doc.FalseAlarmText
	}
	return view{JSON: doc, Text: text}, nil
}
