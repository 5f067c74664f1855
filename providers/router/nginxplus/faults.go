package nginxplus

import (
	"errors"
	"fmt"

	"github.com/manent/action/providers"
)

func invalid(err error, hint string) error {
	return &providers.Fault{Kind: providers.Invalid, Err: err, Hint: hint}
}

func notFound(err error, hint string) error {
	return &providers.Fault{Kind: providers.NotFound, Err: err, Hint: hint}
}

// fault makes an error this router's, with what was done.
func fault(op string, err error) error {
	f, ok := errors.AsType[*providers.Fault](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return &providers.Fault{Provider: name, Op: op, Err: err}
	case f.Provider != "":
		return err
	}
	named := *f
	named.Provider = name
	if op != "" && f.Op != "" {
		op += ": "
	}
	named.Op = op + f.Op
	return &named
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
