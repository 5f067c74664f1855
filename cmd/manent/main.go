// Command manent moves traffic to a new version in small, measured steps, and
// back when something is wrong. All it does is in cmd/internal/cli.
package main

import (
	"os"

	"github.com/manent/action/cmd/internal/cli"
)

// version is set by the linker.
var version = "devel"

func main() { os.Exit(cli.Main(version)) }
