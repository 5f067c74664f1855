// Package providers holds what every provider shares: how one is described
// and built (Spec, Define), the closed set of faults it may answer with
// (Fault), and the type of a secret (Secret).
//
// It imports the standard library only and knows no contract and no
// implementation; the contracts are in the folders below it.
package providers
