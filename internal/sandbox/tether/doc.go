// Package tether is the one link between a sandbox and its host.
//
// A sandbox has no network interface but loopback and no path of its host;
// whatever crosses the boundary crosses a [Link], as byte streams. The host opens
// streams that the guest's server answers, and accepts streams that the guest
// requests. What carries the streams (a unix socket, a multiplexed pair of pipes, a
// WebSocket) is the backend's business.
//
// The package knows nothing of what is said over a stream; that is
// hortus.dev/api/envd. It must not import a backend, the manager or the guest.
//
// A Link lives as long as the machine that gave it. Every stream ends when its
// machine is killed. The peer is hostile: a dial has a deadline, the number of
// streams open at once is bounded, and the process that answers is compared
// with the one that the backend started.
package tether
