//go:build !unix

package handoff

import "testing"

// odd are paths of what is there and is no regular file.
func odd(_ *testing.T, dir string) map[string]string { return map[string]string{"a folder": dir} }
