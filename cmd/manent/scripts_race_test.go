//go:build race

package main

// scripts are those that TestScript runs.
func scripts() []string { return []string{"conflict", "crash", "proxy", "return", "run"} }

// few is what the race detector runs of a table: one case.
func few[T any](table []T) []T { return table[:1] }
