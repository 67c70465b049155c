package envd

// A guest that wants to reach something outside its sandbox opens a stream to its host
// (PathAccept) and sends one EgressRequest as a line of JSON, at most MaxEgressLine bytes with
// the line feed. The host answers with one EgressAnswer in the same form. It is hortus.v1.
const (
	// EgressResolve asks whether a name may be used. The stream carries any number of
	// requests and answers, one after the other.
	EgressResolve = "resolve"
	// EgressConnect opens a connection to a name or an address. After an answer that is OK
	// the stream carries the bytes of the connection.
	EgressConnect = "connect"
	// EgressProxy makes the host an HTTP proxy: there is no answer, and the stream carries
	// the requests of a client that was configured with a proxy.
	EgressProxy = "proxy"

	// MaxEgressLine is the maximum size of a request or an answer, in bytes.
	MaxEgressLine = 1 << 10
	// MaxEgressResolvers is the maximum number of streams with EgressResolve that a guest has
	// open. Beyond it a host may answer EgressErrBusy, so that a lookup fails.
	MaxEgressResolvers = 8
)

// EgressRequest is the first line of a stream.
type EgressRequest struct {
	Op string `json:"op"`
	// Name is a DNS name in lower case without a final dot, or an address.
	Name string `json:"name,omitempty"`
	Port int    `json:"port,omitempty"`
}

// EgressAnswer answers an EgressRequest.
type EgressAnswer struct {
	OK bool `json:"ok,omitempty"`
	// Error is one of the errors below.
	Error string `json:"error,omitempty"`
}

// Errors of an EgressAnswer.
const (
	EgressErrDenied  = "denied"  // the policy does not allow it
	EgressErrFailed  = "failed"  // it is allowed, and the host could not connect
	EgressErrBusy    = "busy"    // too many connections
	EgressErrInvalid = "invalid" // the request is malformed
)
