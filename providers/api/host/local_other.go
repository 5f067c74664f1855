//go:build !unix

package host

import "os/exec"

// detach has nothing to do where there are neither sessions nor SIGTERM.
func detach(*exec.Cmd) {}
