// Package action holds the tests of action.yml, of the script that brings the
// binary, and of the project's own workflows. It has no code of its own and
// must not know what manent does once it has begun.
package action
