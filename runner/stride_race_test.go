//go:build race

package runner_test

// stride is how many calls the enumeration of TestProof takes at a step.
const stride = 211
