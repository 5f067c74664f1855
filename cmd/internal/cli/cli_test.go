package cli

import (
	"bytes"
	"strings"
	"testing"
)

// testApp is a command line whose world is a test's.
func testApp(t *testing.T) *app {
	t.Helper()
	a := newApp("test", func(string) string { return "" }, t.TempDir())
	a.stdin, a.stdout, a.stderr = strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}
	a.screen = a.newScreen(a.stdout)
	return a
}
