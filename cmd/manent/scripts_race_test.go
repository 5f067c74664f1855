//go:build race

package main

// scripts are those that TestScript runs.
func scripts() []string { return []string{"analysis", "conflict", "crash", "proxy", "return", "run"} }
