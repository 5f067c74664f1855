//go:build !race

package checkpoint_test

// many is how many rollouts one document is taken through. The race detector,
// which makes that slow, finds nothing in one process after the other.
const many = 1000
