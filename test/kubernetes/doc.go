// Package kubernetes tests the backend kubernetes: in each run against a double of the API server, whose pods are
// processes, and, in "make kubernetes", against a real cluster on this machine.
package kubernetes
