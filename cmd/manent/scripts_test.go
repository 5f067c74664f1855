//go:build !race

package main

// scripts are those that TestScript runs: all.
func scripts() []string { return []string{"*"} }
