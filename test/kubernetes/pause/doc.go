// Package main is pause, the first process of a pod in the cluster of the tests: it holds the namespaces until it is told to end.
package main
