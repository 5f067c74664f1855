//go:build !race

package kubernetes

// stride is the step between the requests that a deployment is killed at.
const stride = 1
