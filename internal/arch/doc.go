// Package arch holds the tests of the project's architecture: who may import
// whom, how large things may grow, and that nothing of a provider is missing.
// It has no code of its own and must not know what any package does.
package arch
