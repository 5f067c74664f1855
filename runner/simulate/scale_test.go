//go:build !race

package simulate

// scale divides the numbers of rollouts of tests about chance, which the race
// detector makes slow and is not about.
const scale = 1

// few is what the race detector runs of a table: here all.
func few[T any](table []T) []T { return table }
