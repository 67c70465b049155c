package problem

import (
	"net/http"
	"strings"

	"hortus.dev/api"
)

// Problem is an [api.Error] as RFC 9457 has it: the body of every answer of /v1 that is
// an error, as application/problem+json. Kind and Hint are extension members; Type
// is made from the kind.
type Problem struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Kind   api.Kind `json:"kind"`
	Hint   string   `json:"hint,omitempty"`
	// RetryAfterMS is that of the Error, as the header Retry-After in seconds.
	RetryAfterMS int64 `json:"retryAfterMs,omitempty"`
}

// problemTypes is where the types of problems lie. Nothing needs to be there.
const problemTypes = "https://hortus.dev/problems/"

// Of is err as a Problem with a status; 0 is that of its kind. The whole text
// travels: the message of the outermost error and its causes.
func Of(err error, status int) Problem {
	e := api.AsError(err)
	if status == 0 {
		status = e.Kind.HTTPStatus()
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
func (p Problem) Err() *api.Error {
	return &api.Error{Kind: p.Kind, Message: p.Detail, Hint: p.Hint, RetryAfterMS: p.RetryAfterMS}
}
