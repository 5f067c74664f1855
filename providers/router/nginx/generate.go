package nginx

import (
	_ "embed"
	"net/url"
	"strings"
	"text/template"

	"github.com/manent/action/providers"
	"github.com/manent/action/providers/api/host"
	"github.com/manent/action/providers/api/nginx/split"
	"github.com/manent/action/state"
)

//go:embed once.conf.tmpl
var onceText string

// Generated is what manent generate nginx prints.
type Generated struct {
	Once    string // for the http block, put there by hand: slots, log format, example server, status
	File    string // path of the managed file
	Initial string // its first content: all traffic to slot a
	Empty   string // or this, before a first release: no slot serves, requests get 503
}

// Generate writes the configuration for a router's settings. It does no I/O
// and gives the same text each time.
func Generate(settings map[string]any) (Generated, error) {
	built, err := Spec().Build(providers.Env{}, settings)
	if err != nil {
		return Generated{}, err
	}
	s := built.(*Router).settings
	u, err := url.Parse(s.StatusURL)
	if err != nil {
		return Generated{}, err
	}
	var once strings.Builder
	err = template.Must(template.New("once").Parse(onceText)).Execute(&once, map[string]any{
		"Settings": s, "Slots": map[string][]string{"a": s.SlotA, "b": s.SlotB},
		"StatusListen": u.Host, "StatusPath": u.Path, "StatusHTTP": u.Scheme == "http",
	})
	if err != nil {
		return Generated{}, err
	}
	return Generated{Once: once.String(), File: s.IncludeFile, Initial: s.first(split.Share{A: 10000}), Empty: s.first(split.Share{})}, nil
}

// first is a first content. Its generation names its directives.
func (s Settings) first(share split.Share) string {
	f := split.File{}.Next(s.setup(), state.Slots{}, share)
	f.Generation = host.Digest([]byte(f.Render("")))[:26]
	return f.Render(s.Name)
}
