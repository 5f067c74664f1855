package nginxplus

import (
	"fmt"

	"github.com/manent/action/providers"
)

func invalid(err error, hint string) error {
	return &providers.Fault{Kind: providers.Invalid, Err: err, Hint: hint}
}

// fault makes an error this router's, with what was done.
func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return &providers.Fault{Provider: name, Op: op, Kind: providers.KindOf(err), Err: err, Hint: providers.HintOf(err)}
}

// join makes one error of several; it is of the first one's kind.
func join(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	all := problems[0]
	for _, p := range problems[1:] {
		all = fmt.Errorf("%w; %w", all, p)
	}
	return all
}
