// Command program is the plugin of externaltest.
package main

import (
	"os"

	"github.com/manent/action/providers/api/external/externaltest"
)

func main() { os.Exit(externaltest.Main(os.Stdin, os.Stdout, os.Stderr)) }
