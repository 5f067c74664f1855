//go:build !windows

package gitcli

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a process a session of its own: its children can be stopped
// with it, and none can ask anything at a terminal.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
}

// killGroup kills what is left of a process's session.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
