package wire

import "github.com/manent/action/runner/config"

// Pools are the pools of this build: none yet, so that validate refuses a
// configuration that uses one.
func Pools() []config.Entry { return nil }
