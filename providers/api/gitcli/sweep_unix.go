//go:build !windows

package gitcli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// abandonedAfter is how long a scratch directory stays untouched before it
// may be taken for left behind.
const abandonedAfter = 24 * time.Hour

// sweep removes the scratch directories in dir that killed processes of this
// user left behind. What cannot be looked at or removed stays.
func sweep(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir) // what could be read of it
	for _, entry := range entries {
		pid, _, ok := strings.Cut(strings.TrimPrefix(entry.Name(), scratchPrefix), "-")
		if !ok || !strings.HasPrefix(entry.Name(), scratchPrefix) || !entry.IsDir() || !isDead(pid) {
			continue
		}
		if info, err := entry.Info(); err == nil && isAbandoned(info, now) {
			_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
		}
	}
}

func isDead(pid string) bool {
	n, err := strconv.ParseInt(pid, 10, 32)
	return err == nil && n > 0 && errors.Is(syscall.Kill(int(n), 0), syscall.ESRCH)
}

func isAbandoned(info fs.FileInfo, now time.Time) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int64(stat.Uid) == int64(os.Getuid()) && now.Sub(info.ModTime()) > abandonedAfter
}
