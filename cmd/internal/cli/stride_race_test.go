//go:build race

package cli

// stride is every which cell of the matrix is played: the race detector makes
// each some eight times as long.
const stride = 7
