//go:build !windows

package gitcli

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a process a group of its own, so that its children can be
// stopped with it. A session of its own would cost half of git's speed on a
// busy machine, where the kernel groups by session.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
}

// killGroup kills what is left of a process's group.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
