package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
)

// Host names the machine, its boot and the name space of its process numbers,
// so that equal hosts mean that a process number can be asked about. Two
// containers may well share a host name. Where the boot cannot be told (not
// Linux) every process has a name of its own: then no lease is ever taken
// early.
func Host() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, linkErr := os.Readlink("/proc/self/ns/pid")
	if err != nil || linkErr != nil {
		return name + "/" + Nonce()[:8]
	}
	sum := sha256.Sum256([]byte(string(boot) + space))
	return name + "/" + hex.EncodeToString(sum[:4])
}
