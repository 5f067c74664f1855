//go:build race

package analysis

// scale divides the numbers of trials of tests about chance, which the race
// detector makes slow and is not about.
const scale = 8
