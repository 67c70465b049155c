// Package lattice has the project's import rules as text, and the test that enforces
// them. Commands flow server -> task -> agent -> sandbox -> backend -> guest. The test
// fails on imports that the rules do not allow.
package lattice
