//go:build race

package simulate

// scale divides the numbers of rollouts of tests about chance, which the race
// detector makes slow and is not about.
const scale = 10

// few is what the race detector runs of a table: one case, as all go the same
// way through the code. `make test` runs all of them without it.
func few[T any](table []T) []T { return table[:1] }
