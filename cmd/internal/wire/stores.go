package wire

import (
	"strings"

	"github.com/manent/action/providers/store"
	"github.com/manent/action/providers/store/file"
	"github.com/manent/action/providers/store/git"
	"github.com/manent/action/providers/store/s3"
)

// Stores are the stores of this build.
func Stores() []store.Spec {
	return []store.Spec{
		git.Spec(),
		s3.Spec(),
		file.Spec(),
	}
}

// OpenStore opens the store of an address such as git, git:<url>,
// s3://bucket/prefix or file:<dir>. It does no I/O.
func (h Host) OpenStore(address string) (store.Store, error) {
	scheme, _, _ := strings.Cut(address, ":")
	spec, err := named("state "+address, scheme, Stores(), func(s store.Spec) string { return s.Scheme })
	if err != nil {
		return nil, err
	}
	return spec.Open(h.env(nil), address)
}
