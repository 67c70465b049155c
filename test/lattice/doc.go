// Package lattice holds the project's import rules as text, and the test that
// keeps them. Commands flow door -> task -> agent -> sandbox -> backend ->
// guest; what the rules do not allow is not built.
package lattice
