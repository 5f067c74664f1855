//go:build race

package analysis

// scale divides the numbers of trials of tests about chance, which the race
// detector makes slow and is not about.
const scale = 8

// few is what the race detector runs of a table: one case, as all go the same
// way through the code. `make test` runs all of them without it.
func few[T any](table []T) []T { return table[:1] }
