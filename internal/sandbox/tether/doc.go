// Package tether is the one link between a sandbox and its host.
//
// A sandbox has a loopback interface only and no path of its host. Everything that crosses
// the boundary is a byte stream of a [Link]. The host opens streams that the guest's server
// answers, and accepts streams that the guest requests. The backend decides what carries
// the streams: a unix socket, a multiplexed pair of pipes, a WebSocket.
//
// The package does not know the protocol on a stream; that is hortus.dev/api/envd. It must not import a backend, the manager or the guest.
//
// A Link lives as long as its machine. Every stream ends when the machine is killed. The peer
// is hostile: a dial has a deadline, the number of open streams is limited, and the process
// that answers must be the one that the backend started.
package tether
