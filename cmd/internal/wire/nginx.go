package wire

import (
	"github.com/manent/action/providers/router/nginx"
	"github.com/manent/action/runner/config"
)

// NginxFiles are what manent generate nginx prints.
type NginxFiles struct {
	Once    string `json:"once"`    // for the http block, once
	File    string `json:"file"`    // path of the file that manent replaces
	Initial string `json:"initial"` // its first content while slot a serves
	Empty   string `json:"empty"`   // or before a first release
}

// Nginx returns them for the settings of a router, and the targets, which may
// be its servers.
func Nginx(settings map[string]any, configured []config.Target) (NginxFiles, error) {
	g, err := nginx.Generate(settings, targets(configured))
	return NginxFiles(g), err
}
