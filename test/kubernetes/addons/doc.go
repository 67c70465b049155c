// Package addons names what a cluster needs besides Kubernetes: Helm, CoreDNS and what enforces network policies.
package addons
