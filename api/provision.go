package api

import (
	"strings"
	"time"
)

// ProvisionRequest requests the sandbox of a task of the caller's own, by the name
// that the caller has for it. It can be sent again: while the sandbox lives, the same
// request gives the same sandbox.
type ProvisionRequest struct {
	// TaskID is the caller's: 1 to MaxTaskID letters, digits and ".", "_", ":", "-",
	// the first a letter or a digit. It must not look like the id of a sandbox.
	TaskID string `json:"taskId"`
	// ImageID names the template; "host" is the default.
	ImageID string `json:"imageId,omitempty"`
	// TTLSeconds is how long the sandbox lives, 1 to 86,400; the default is 300.
	TTLSeconds int64 `json:"ttlSeconds,omitempty"`
	// EnvVars are given to everything that runs in it.
	EnvVars map[string]string `json:"envVars,omitempty"`
}

// MaxTaskID is the length of the longest TaskID of a caller's own.
const MaxTaskID = 128

// ValidTaskID reports whether a caller can name a task so.
func ValidTaskID(s string) bool {
	if s == "" || len(s) > MaxTaskID || SandboxID(s).Valid() {
		return false
	}
	for i := range len(s) {
		c := s[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !plain && (i == 0 || strings.IndexByte("._:-", c) < 0) {
			return false
		}
	}
	return true
}

// Provisioned is the sandbox of a caller's task.
type Provisioned struct {
	SandboxID SandboxID    `json:"sandboxId"`
	TaskID    string       `json:"taskId"`
	ImageID   string       `json:"imageId"`
	Status    SandboxState `json:"status"`
	// SandboxURL is where code is run: POST {sandboxUrl}/execute. Where it holds a
	// token, anyone who has the URL may run code in the sandbox, and nothing else.
	SandboxURL string    `json:"sandboxUrl"`
	Isolation  string    `json:"isolation"`
	TTLSeconds int64     `json:"ttlSeconds"`
	CreatedAt  time.Time `json:"createdAt"`
	ExpiresAt  time.Time `json:"expiresAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	// Reason is why it ended.
	Reason string `json:"reason,omitempty"`
}

// WaitRequest is how long to wait for a sandbox.
type WaitRequest struct {
	// Timeout is in seconds, 1 to MaxWait; the default is 30.
	Timeout int `json:"timeout,omitempty"`
}

// MaxWait is the longest wait in one call, in seconds.
const MaxWait = 600

// Destroyed is what was left of a caller's sandbox: nothing.
type Destroyed struct {
	Sandbox Provisioned `json:"sandbox"`
	Proof   Proof       `json:"proof"`
}

// ExecuteRequest requests a piece of code to be run in a sandbox.
type ExecuteRequest struct {
	// Language is "python" (the default), "javascript" or "bash".
	Language string `json:"language,omitempty"`
	// Code has at most MaxCode bytes.
	Code string `json:"code"`
	// TimeoutSeconds kills it after that long, 1 to 3,600; the default is 60.
	TimeoutSeconds int64 `json:"timeoutSeconds,omitempty"`
}

// Bounds of an ExecuteRequest and its answer, in bytes.
const (
	MaxCode   = 1 << 20
	MaxOutput = 1 << 20 // of each stream, in the answer
)

// Executed is what a piece of code came to. Output is text: bytes that are not UTF-8
// come as U+FFFD.
type Executed struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exitCode"`
	// Signal and Cause say more of an end that was not an exit, as in Exit.
	Signal string `json:"signal,omitempty"`
	Cause  string `json:"cause,omitempty"`
	// Truncated is true if more was written than is here: StdoutBytes and
	// StderrBytes are all of it.
	Truncated   bool  `json:"truncated,omitempty"`
	StdoutBytes int64 `json:"stdoutBytes"`
	StderrBytes int64 `json:"stderrBytes"`
	// MS is how long it ran, Exec its record.
	MS   int64  `json:"ms"`
	Exec ExecID `json:"exec"`
}
