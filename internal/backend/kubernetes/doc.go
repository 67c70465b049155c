// Package kubernetes is the backend whose sandboxes are pods of a Kubernetes cluster, for clusters that forbid nodes of
// Hortus's own.
//
//	s, err := kubernetes.New(kubernetes.Config{Namespace: "sandboxes", Image: "debian:stable", GuestImage: "hortus-guest:v1",
//		GuestURL: "https://10.0.0.7:7443", Listen: ":7443", Dir: dir})
//	b, err := remote.New(remote.Config{Service: s, Dir: dir, Layers: layers, Workspaces: workspaces})
//
// A [Service] speaks the API of the cluster, and package remote does the rest. One pod is one sandbox. Its first
// container copies the guest from an image into an empty directory; the second one runs it in the image of the setting.
//
// # The guest connects to the daemon
//
// A pod has no open port, and nothing is executed through the API server. The guest connects to the address in
// Config.GuestURL, as package dialout documents: it knows the daemon by the digest of its key, and the daemon knows the
// guest by a ticket that is accepted once. Environment variables and tokens of the sandbox travel on that connection, so
// that the description of a pod contains no secret that is still valid.
//
// # What isolates
//
// Pods have the restricted profile of the cluster's Pod Security Standards: no root, no capabilities, no escalation, the
// runtime's filter of system calls, no token of a service account. A RuntimeClass such as gvisor or kata adds a kernel.
// One NetworkPolicy of this daemon denies all connections but the one to it. Whether the cluster enforces policies is
// not part of its API: so each guest, before its first command, tries to connect to the API server, and a sandbox whose
// guest can is refused. Limits of memory and processors can be accepted and not enforced too: each guest reads those of
// its control group, and a sandbox that has none, or more than it asked for, is refused.
//
// # Lives
//
// Pods are found by labels with the ID of the data directory. A pod is deleted with a grace period of a second and never
// with zero: the API server then keeps it until its node has ended the containers, which is what a proof says. A guest
// that does not reach its daemon for remote.Lease ends; its pod remains, without a process, until a daemon reclaims it.
//
// The package must not know other backends. [Service.Close] ends the listener, its connections and its goroutines.
//
// # Reasons
//
// docs/decisions/0145 has them: a client of our own, connections instead of exec, and a pod instead of a custom resource.
package kubernetes
