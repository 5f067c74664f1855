//go:build race

package gate

// fewer divides the numbers of readings that are made up, which the race
// detector makes slow and is not about.
const fewer = 4
