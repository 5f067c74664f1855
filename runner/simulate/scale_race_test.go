//go:build race

package simulate

// scale divides the numbers of rollouts of tests about chance, which the race
// detector makes slow and is not about.
const scale = 10
