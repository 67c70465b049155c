package broker

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/egress/web"
)

// Git decides about requests that bindings with rules for git allow. Its functions see the
// placeholder, not the value.
type Git struct {
	// Check returns the request that may be sent; its body may be checked while it is read.
	Check func(rule secrets.Git, r *http.Request) (*http.Request, error)
	// Send sends such a request. Default: RoundTrip of t.
	Send func(t http.RoundTripper, r *http.Request) (*http.Response, error)
	// Refused returns the answer to a request for which Check or Send returned an error because
	// of the rule; ok is false for another error. Default: every error of Check is one, and
	// gets its text as the answer.
	Refused func(err error) (status int, contentType string, body []byte, ok bool)
}

// ownAnswer is the error for a request that was answered here.
type ownAnswer struct{ resp *http.Response }

// Error implements error.
func (ownAnswer) Error() string { return "the request was answered" }

// checkGit decides about a request.
func (f *flight) checkGit(r *http.Request) (*http.Request, error) {
	git := f.s.broker.cfg.Git
	if git.Check == nil {
		return nil, f.refuse(f.grant.placeholder, "bindings with rules for git are not supported")
	}
	out, err := git.Check(*f.binding.Git, r)
	if err == nil {
		return out, nil
	}
	if refused := f.body.refused(); refused != nil {
		return nil, refused
	}
	if git.Refused == nil {
		return nil, f.refuse(f.grant.placeholder, err.Error())
	}
	if resp := f.refusedByGit(r, err); resp != nil {
		return nil, ownAnswer{resp}
	}
	return nil, &web.Refusal{Failed: true, Status: http.StatusBadRequest, Reason: "the body of the request ended too early"}
}

// refusedByGit returns the answer to a request that a rule for git does not allow, and records
// it; nil for another error.
func (f *flight) refusedByGit(r *http.Request, err error) *http.Response {
	refused := f.s.broker.cfg.Git.Refused
	if refused == nil {
		return nil
	}
	status, contentType, body, ok := refused(err)
	if !ok {
		return nil
	}
	u := f.use()
	u.Refused = err.Error()
	f.s.record(u)
	return &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {contentType}, "Content-Length": {strconv.Itoa(len(body))}, "Cache-Control": {"no-cache"}, "X-Hortus-Egress": {"denied"}},
	}
}

// send sends a request that may be changed no more.
func (f *flight) send(t http.RoundTripper, r *http.Request) (*http.Response, error) {
	if f.binding != nil && f.binding.Git != nil && f.s.broker.cfg.Git.Send != nil {
		return f.s.broker.cfg.Git.Send(t, r)
	}
	return t.RoundTrip(r)
}
