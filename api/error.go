package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Kind is what sort of failure an [Error] is. The set is closed: a caller may
// switch over it, and every server maps it once (see [Kind.HTTPStatus] and
// [Kind.ExitCode]). The strings are part of the wire; do not rename them.
type Kind string

const (
	// KindInvalid: the request itself is wrong; sending it again cannot help.
	KindInvalid Kind = "invalid"
	// KindUnauthenticated: the caller did not prove who it is.
	KindUnauthenticated Kind = "unauthenticated"
	// KindDenied: the caller is known and may not do this.
	KindDenied Kind = "denied"
	// KindNotFound: there is no such thing, or not for this caller.
	KindNotFound Kind = "not_found"
	// KindExists: a thing of that name is already there.
	KindExists Kind = "exists"
	// KindConflict: the thing is in a state that does not allow this.
	KindConflict Kind = "conflict"
	// KindUnsupported: a capability is missing; the message names it.
	KindUnsupported Kind = "unsupported"
	// KindUnisolated: this host cannot give the isolation that was requested.
	KindUnisolated Kind = "unisolated"
	// KindExhausted: a limit was reached (memory, disk, output, processes).
	KindExhausted Kind = "exhausted"
	// KindTimeout: a deadline passed.
	KindTimeout Kind = "timeout"
	// KindCanceled: the caller, or a person, stopped it.
	KindCanceled Kind = "canceled"
	// KindUnavailable: it was there and is gone, or cannot be reached now.
	KindUnavailable Kind = "unavailable"
	// KindDeclined: the model says that the request is beyond it.
	KindDeclined Kind = "declined"
	// KindInternal: a defect of Hortus or of its host.
	KindInternal Kind = "internal"
)

// Kinds lists the closed set, in the order of its declaration.
var Kinds = [...]Kind{
	KindInvalid, KindUnauthenticated, KindDenied, KindNotFound, KindExists,
	KindConflict, KindUnsupported, KindUnisolated, KindExhausted, KindTimeout,
	KindCanceled, KindUnavailable, KindDeclined, KindInternal,
}

// HTTPStatus is the status code that servers answer with.
func (k Kind) HTTPStatus() int {
	switch k {
	case KindInvalid, KindUnsupported:
		return http.StatusBadRequest
	case KindUnauthenticated:
		return http.StatusUnauthorized
	case KindDenied:
		return http.StatusForbidden
	case KindNotFound:
		return http.StatusNotFound
	case KindExists, KindConflict:
		return http.StatusConflict
	case KindUnisolated:
		return http.StatusNotImplemented
	case KindExhausted:
		return http.StatusTooManyRequests
	case KindTimeout:
		return http.StatusGatewayTimeout
	case KindCanceled:
		return 499 // the client closed the request; widely used, not registered
	case KindUnavailable:
		return http.StatusBadGateway
	case KindDeclined:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// ExitCode is the code with which a command ends that failed with this kind
// before the user's own program decided otherwise. docs/cli.md lists them.
func (k Kind) ExitCode() int {
	switch k {
	case KindInvalid:
		return 2
	case KindDeclined:
		return 3
	case KindUnisolated:
		return 4
	case KindCanceled:
		return 130
	}
	return 1
}

// Error is the one error type that crosses a boundary of Hortus. Its message
// says what failed, on what; Hint says what to do about it.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// Hint is the next step for a person, in a sentence. May be empty.
	Hint string `json:"hint,omitempty"`
	// RetryAfterMS is the time after which the same may be tried again, in
	// milliseconds; 0 where that is not known to help.
	RetryAfterMS int64 `json:"retryAfterMs,omitempty"`
	// Gone is true if what the request is about has ended for good: the same request never
	// succeeds. Its status is 410, which no HTTP library retries.
	Gone bool `json:"-"`
	// Err is the cause. It stays on this side of a wire.
	Err error `json:"-"`
}

// Error returns the message, and the cause if there is one.
func (e *Error) Error() string {
	if e.Err != nil {
		if cause := e.Err.Error(); cause != "" {
			return e.Message + ": " + cause
		}
	}
	return e.Message
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// MaxMessage bounds an error's message, in bytes. Messages quote requests and output,
// are stored with rows and sent to clients.
const MaxMessage = 16 << 10

// clipMessage truncates a message to MaxMessage.
func clipMessage(s string) string {
	if len(s) <= MaxMessage {
		return s
	}
	const mark = "... (truncated)"
	return strings.ToValidUTF8(s[:MaxMessage-len(mark)], "") + mark
}

// Errorf builds an [Error] of one kind. A %w verb keeps its operand as cause. A message
// longer than MaxMessage is truncated.
func Errorf(kind Kind, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	// The whole text is the message; the cause is kept for errors.Is only.
	return &Error{Kind: kind, Message: clipMessage(wrapped.Error()), Err: hidden{errors.Unwrap(wrapped)}.orNil()}
}

// WithHint returns a copy of e with its next step set.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// KindOf finds the kind of any error: that of the first [Error] in its chain,
// KindCanceled or KindTimeout for the context's own errors, else KindInternal.
// It is empty for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	}
	return KindInternal
}

// HintOf finds the next step that an error carries, or "".
func HintOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// GoneOf reports whether an error says that what the request is about has ended for good.
func GoneOf(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Gone
}

// HTTPStatus is the status code that servers answer with.
func (e *Error) HTTPStatus() int {
	if e.Gone {
		return http.StatusGone
	}
	return e.Kind.HTTPStatus()
}

// RetryAfterOf finds the time after which the same may be tried again, or 0.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return time.Duration(e.RetryAfterMS) * time.Millisecond
	}
	return 0
}

// AsError turns any error into an [Error] with KindOf's kind, keeping its text.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e.Error() == err.Error() {
		return e
	}
	return &Error{Kind: KindOf(err), Message: clipMessage(err.Error()), Hint: HintOf(err), RetryAfterMS: RetryAfterOf(err).Milliseconds(), Gone: GoneOf(err), Err: hidden{err}.orNil()}
}

// hidden keeps a cause in the chain without printing it a second time.
type hidden struct{ err error }

func (h hidden) orNil() error {
	if h.err == nil {
		return nil
	}
	return h
}

func (h hidden) Error() string { return "" }
func (h hidden) Unwrap() error { return h.err }

// Problem is an [Error] as RFC 9457 has it: the body of every answer of /v1 that is
// an error, as application/problem+json. Kind and Hint are extension members; Type
// is made from the kind.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   Kind   `json:"kind"`
	Hint   string `json:"hint,omitempty"`
	// Call is the request of the HTTP API that does what the hint says, if that is a command:
	// "POST /v1/sandboxes/ID/resume".
	Call string `json:"call,omitempty"`
	// RetryAfterMS is that of the Error, as the header Retry-After in seconds.
	RetryAfterMS int64 `json:"retryAfterMs,omitempty"`
}

// problemTypes is where the types of problems lie. Nothing needs to be there.
const problemTypes = "https://hortus.dev/problems/"

// ProblemOf is err as a Problem with a status; 0 is that of its kind. The whole text
// travels: the message of the outermost error and its causes.
func ProblemOf(err error, status int) Problem {
	e := AsError(err)
	if status == 0 {
		status = e.HTTPStatus()
	}
	title := http.StatusText(status)
	if title == "" {
		title = strings.ReplaceAll(string(e.Kind), "_", " ")
	}
	return Problem{
		Type: problemTypes + strings.ReplaceAll(string(e.Kind), "_", "-"), Title: title, Status: status,
		Detail: e.Error(), Kind: e.Kind, Hint: e.Hint, RetryAfterMS: e.RetryAfterMS,
	}
}

// Err is the Error that the problem tells of.
func (p Problem) Err() *Error {
	return &Error{Kind: p.Kind, Message: p.Detail, Hint: p.Hint, RetryAfterMS: p.RetryAfterMS, Gone: p.Status == http.StatusGone}
}
