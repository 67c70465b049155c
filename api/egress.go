package api

import (
	"strings"
	"time"
)

// EgressAction is what a rule does with a connection or a request.
type EgressAction string

const (
	EgressAllow EgressAction = "allow"
	EgressDeny  EgressAction = "deny"
)

// EgressClass is how an allowed connection is carried.
type EgressClass string

const (
	// EgressWeb is the default: HTTP in clear, or TLS that the host terminates. The host
	// reads every request and checks that the name that was resolved, the TLS server name,
	// the Host header and the certificate of the server are the same.
	EgressWeb EgressClass = ""
	// EgressPassthrough is TLS that the host does not terminate, for programs that pin
	// certificates or present their own. Only the TLS server name is checked.
	EgressPassthrough EgressClass = "passthrough"
	// EgressTCP is any protocol over TCP. Its bytes are not read.
	EgressTCP EgressClass = "tcp"
)

// EgressRule allows or denies what it matches.
type EgressRule struct {
	Action EgressAction `json:"action"`
	// Host is a name ("example.org"), the names below one ("*.example.org"), every name
	// and address ("*"), an address, or a CIDR range. Addresses match connections that
	// were made to an address, never those to a name.
	Host string `json:"host"`
	// Ports are ports and ranges, separated by commas: "443", "80,8000-8999", "*". Empty
	// is 80 and 443 for names, and every port for addresses and "*".
	Ports string      `json:"ports,omitempty"`
	Class EgressClass `json:"class,omitempty"`
	// Methods and Paths restrict the rule to HTTP requests with one of the methods and
	// one of the paths; empty is any. In a path "*" is any text without "/", "**" any
	// text. They need EgressWeb.
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	// Private allows the host's name to resolve to private addresses, for example a
	// package mirror in the operator's network. It is ignored for "*" and wildcards.
	Private bool `json:"private,omitempty"`
	// Source is where the rule is from: the name of a preset, "ask", or empty.
	Source string `json:"source,omitempty"`
}

// HeaderRule sets headers in the HTTPS requests of a sandbox to one host. It allows no connection.
type HeaderRule struct {
	// Host is a name ("api.example.org"), or the names below one ("*.example.org"). The most
	// specific rule for a host counts.
	Host string `json:"host"`
	// Port is 443 by default.
	Port int `json:"port,omitempty"`
	// Headers are values by the names of their headers. They replace what a program sends.
	// "${secret:NAME}" in a value is replaced, outside of the sandbox, by the value of a secret
	// of the sandbox's account that is for headers.
	Headers map[string]string `json:"headers"`
}

// EgressPolicy is what a sandbox may connect to. The zero value denies everything.
type EgressPolicy struct {
	// Presets are names of rule sets of the daemon: "npm", "pip", "go", "apt", "git",
	// "models". When a sandbox is created or its policy is replaced, their rules are
	// appended to Rules, with the name as Source.
	Presets []string `json:"presets,omitempty"`
	// Rules are tried in order; the first one that matches decides. What none matches is
	// denied.
	Rules []EgressRule `json:"rules,omitempty"`
	// Headers are set in requests that the rules allow. No two are for the same host and port. A
	// ceiling or a default has none.
	Headers []HeaderRule `json:"headers,omitempty"`
	// Ask makes a connection that no rule matches wait until a person allows or denies
	// it, at most EgressAskTimeout.
	Ask bool `json:"ask,omitempty"`
	// MaxConnections is the maximum number of open connections (1 to 4096); 0 is
	// DefaultEgressConnections.
	MaxConnections int `json:"maxConnections,omitempty"`
	// MaxBytes is the maximum number of bytes that the sandbox may send and receive in
	// total; 0 is no limit.
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

const (
	// DefaultEgressConnections is the default maximum of open connections of a sandbox.
	DefaultEgressConnections = 512
	// EgressAskTimeout is how long a connection waits for a person.
	EgressAskTimeout = 5 * time.Minute
)

// OverridesRequest reports whether some servers read the method or the path of a request from a header of this name.
// They may take "_" for "-".
func OverridesRequest(header string) bool {
	switch strings.ReplaceAll(strings.ToLower(header), "_", "-") {
	case "x-http-method-override", "x-http-method", "x-method-override", "x-original-method", "x-forwarded-method", "x-original-url",
		"x-original-uri", "x-original-path", "x-rewrite-url", "x-rewrite-uri", "x-override-url", "x-forwarded-uri", "x-forwarded-url",
		"x-forwarded-path", "x-forwarded-prefix", "x-envoy-original-path", "x-envoy-original-method", "x-waws-unencoded-url", "x-request-uri":
		return true
	}
	return false
}

// EgressResult is what became of a connection or a request.
type EgressResult string

const (
	EgressAllowed EgressResult = "allowed"
	EgressDenied  EgressResult = "denied"
	// EgressFailed is one that was allowed and did not succeed: the name does not resolve,
	// the server refuses, its certificate is invalid.
	EgressFailed EgressResult = "failed"
	// EgressWaiting is one that waits for a person.
	EgressWaiting EgressResult = "waiting"
	// EgressDropped stands for Count decisions of a sandbox that were not recorded, because
	// there were too many or the store failed. Its Op is EgressOpGap.
	EgressDropped EgressResult = "dropped"
	// EgressAlarm is what is suspicious in several decisions together. Its Op is EgressOpAlarm, and the
	// rest is that of the last one.
	EgressAlarm EgressResult = "alarm"
)

const (
	// EgressOpGap is the Op of a record that stands for decisions that were not recorded.
	EgressOpGap = "gap"
	// EgressOpAnswer is the Op of a record of how a question ended: its Ask. Reason says who
	// answered it.
	EgressOpAnswer = "answer"
	// EgressOpAlarm is the Op of an alarm. Reason says what is suspicious.
	EgressOpAlarm = "alarm"
)

// EgressDecision is the record of one decision. The text in it that is from the sandbox
// (Host, Method, Path) is untrusted.
type EgressDecision struct {
	Seq     int64        `json:"seq,omitempty"`
	At      time.Time    `json:"at"`
	Sandbox SandboxID    `json:"sandbox"`
	Task    TaskID       `json:"task,omitempty"`
	Account string       `json:"account,omitempty"`
	Result  EgressResult `json:"result"`
	// Ask is the ID of the EgressAsk that a waiting decision opened, or that an answer closed.
	Ask string `json:"ask,omitempty"`
	// Op is "resolve", "connect", "request", EgressOpGap, EgressOpAnswer or EgressOpAlarm.
	Op    string      `json:"op"`
	Host  string      `json:"host"`
	Port  int         `json:"port,omitempty"`
	Class EgressClass `json:"class,omitempty"`
	// Address is the address that the host connected to.
	Address string `json:"address,omitempty"`
	Method  string `json:"method,omitempty"`
	Path    string `json:"path,omitempty"`
	// Status is the HTTP status of the server's answer.
	Status int `json:"status,omitempty"`
	// Cached means that the package cache of the host answered, without a connection.
	Cached bool `json:"cached,omitempty"`
	// Rule is the rule that decided, in the form of --egress; empty if none matched.
	Rule string `json:"rule,omitempty"`
	// Reason is why it was denied or failed, and Hint how to allow it.
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Commands are the commands that were running in the sandbox, one of which made the
	// connection.
	Commands []string `json:"commands,omitempty"`
	// Sent and Received are bytes of a connection that has ended, DurationMS its duration.
	Sent       int64 `json:"sent,omitempty"`
	Received   int64 `json:"received,omitempty"`
	DurationMS int64 `json:"durationMs,omitempty"`
	// Count is the number of equal decisions that this record stands for, if it is more
	// than one: a flood is recorded once a second.
	Count int `json:"count,omitempty"`
}

// NewEgressAskID makes a fresh identifier of a question: "q" and 19 characters.
func NewEgressAskID() string { return newID('q') }

// EgressAsk is an open question to a person: may a sandbox make this connection? It is
// denied if there is no answer at Expires.
type EgressAsk struct {
	ID       string         `json:"id"`
	At       time.Time      `json:"at"`
	Expires  time.Time      `json:"expires"`
	Decision EgressDecision `json:"decision"`
}
