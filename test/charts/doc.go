// Package charts renders the Helm chart of packaging/kubernetes, checks the objects against the types of Kubernetes, and
// compares the plain manifests there with the chart, which is their source.
//
//	go -C test/charts test ./...           # checks
//	go -C test/charts test ./... -update   # writes packaging/kubernetes/manifests/hortus.yaml
//
// It is a module of its own, so that Hortus needs no module of Helm or Kubernetes.
package charts
