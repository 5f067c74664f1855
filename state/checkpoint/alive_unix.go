//go:build !windows

package checkpoint

import (
	"errors"
	"syscall"
)

// Alive reports whether a process of this host lives. When in doubt it does.
func Alive(pid int) bool {
	return pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
