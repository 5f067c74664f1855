package split

import (
	_ "embed"
	"net/url"
	"strings"
	"text/template"
)

//go:embed once.conf.tmpl
var onceText string

// Once writes what a person puts into the http block once: the include of the
// managed file, the slots, the log format, an example server, and the location
// that answers which file the workers serve.
func (s Setup) Once(includeFile string, status *url.URL) (string, error) {
	var out strings.Builder
	err := template.Must(template.New("once").Parse(onceText)).Execute(&out, struct {
		Setup
		IncludeFile string
		Status      *url.URL
	}{s, includeFile, status})
	return out.String(), err
}
