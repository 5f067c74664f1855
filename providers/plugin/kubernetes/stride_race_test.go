//go:build race

package kubernetes

// stride under the race detector, which sees the same code with each request:
// it is a share of them.
const stride = 4
