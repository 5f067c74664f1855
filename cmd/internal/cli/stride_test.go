//go:build !race

package cli

// stride is every which cell of the matrix is played.
const stride = 1
