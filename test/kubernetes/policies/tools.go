//go:build tools

// Package policies names the command that enforces network policies in the cluster of the tests.
package policies

import _ "sigs.k8s.io/kube-network-policies/cmd"
