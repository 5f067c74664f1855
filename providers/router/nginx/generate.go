package nginx

import (
	"net/url"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/state"
)

const noServers = "give slot_a and slot_b, or targets with the labels slot: a and slot: b"

// Generated is what manent generate nginx prints.
type Generated struct {
	Once    string // for the http block, put there by hand
	File    string // path of the managed file
	Initial string // its first content: all traffic to slot a
	Empty   string // or this, before a first release: no slot serves, requests get 503
}

// Generate writes the configuration for a router's settings and the targets,
// which may be its servers. It does no I/O and gives the same text each time.
func Generate(settings map[string]any, targets []providers.Target) (Generated, error) {
	built, err := Spec().Build(providers.Env{Targets: targets}, settings)
	if err != nil {
		return Generated{}, err
	}
	s := built.(*Router).settings
	if err := s.setup().Check(); err != nil {
		return Generated{}, &providers.Fault{Provider: name, Op: "generate", Kind: providers.Invalid, Err: err, Hint: noServers}
	}
	status, err := url.Parse(s.StatusURL)
	if err != nil {
		return Generated{}, err
	}
	once, err := s.setup().Once(s.IncludeFile, status)
	return Generated{Once: once, File: s.IncludeFile, Initial: s.first(split.Share{A: 10000}), Empty: s.first(split.Share{})}, err
}

// first is a first content. Its generation names its directives.
func (s Settings) first(share split.Share) string {
	f := split.File{}.Next(s.setup(), state.Slots{}, share)
	f.Generation = host.Digest([]byte(f.Render("")))[:26]
	return f.Render(s.Name)
}
