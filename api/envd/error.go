package envd

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"hortus.dev/api"
)

// The codes of the Connect protocol that this wire uses.
const (
	CodeCanceled           = "canceled"
	CodeUnknown            = "unknown"
	CodeInvalidArgument    = "invalid_argument"
	CodeDeadlineExceeded   = "deadline_exceeded"
	CodeNotFound           = "not_found"
	CodeAlreadyExists      = "already_exists"
	CodePermissionDenied   = "permission_denied"
	CodeResourceExhausted  = "resource_exhausted"
	CodeFailedPrecondition = "failed_precondition"
	CodeUnimplemented      = "unimplemented"
	CodeInternal           = "internal"
	CodeUnavailable        = "unavailable"
	CodeUnauthenticated    = "unauthenticated"
	// CodeAborted ends the stream of a process that continues elsewhere: connect to it again.
	CodeAborted = "aborted"
)

// codes relates each code to the HTTP status of a unary answer and to the kind
// of error on this side of the wire. The first row of a kind is the one that
// [FromAPI] chooses.
var codes = [...]struct {
	code   string
	status int
	kind   api.Kind
}{
	{CodeInvalidArgument, 400, api.KindInvalid},
	{CodeUnauthenticated, 401, api.KindUnauthenticated},
	{CodePermissionDenied, 403, api.KindDenied},
	{CodeNotFound, 404, api.KindNotFound},
	{CodeAlreadyExists, 409, api.KindExists},
	{CodeFailedPrecondition, 400, api.KindConflict},
	{CodeUnimplemented, 501, api.KindUnsupported},
	{CodeUnimplemented, 501, api.KindUnisolated},
	{CodeResourceExhausted, 429, api.KindExhausted},
	{CodeDeadlineExceeded, 504, api.KindTimeout},
	{CodeCanceled, 499, api.KindCanceled},
	{CodeUnavailable, 503, api.KindUnavailable},
	{CodeFailedPrecondition, 400, api.KindDeclined},
	{CodeInternal, 500, api.KindInternal},
	{CodeUnknown, 500, api.KindInternal},
	{CodeAborted, 409, api.KindConflict},
	{"out_of_range", 400, api.KindInvalid},
	{"data_loss", 500, api.KindInternal},
}

// Error is a failure as it travels on the wire: one of the Connect codes and a
// sentence for a person.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	// Gone is true if what the call is about has ended for good. A daemon says so; what a guest says of it does not count.
	Gone bool `json:"gone,omitempty"`
}

// Error returns the message, or the code if there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Message
}

// HTTPStatus is the status of a unary answer that carries the error.
func (e *Error) HTTPStatus() int {
	for _, c := range codes {
		if c.code == e.Code {
			return c.status
		}
	}
	return http.StatusInternalServerError
}

// APIError converts an error of a guest to an api.Error (see [Error.API]) that is not gone, and returns other
// errors as they are.
func APIError(err error) error {
	var e *Error
	if errors.As(err, &e) {
		out := e.API()
		out.Gone = false
		return out
	}
	return err
}

// API turns the error into the kind that the rest of Hortus switches over. An
// unknown code is internal. The result has e as its cause.
func (e *Error) API() *api.Error {
	kind := api.KindInternal
	for _, c := range codes {
		if c.code == e.Code {
			kind = c.kind
			break
		}
	}
	out := api.Errorf(kind, "%w", e)
	out.Gone = e.Gone
	return out
}

// FromAPI turns any error into one that can travel: an [Error] in its chain as
// it is, else the code that stands for its kind. It is nil for nil.
func FromAPI(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: codeOf(api.KindOf(err), CodeInternal), Message: err.Error(), Gone: api.GoneOf(err)}
}

// codeOf returns the code that stands for a kind, or the fallback for what is no kind.
func codeOf(kind api.Kind, fallback string) string {
	for _, c := range codes {
		if c.kind == kind {
			return c.code
		}
	}
	return fallback
}

// maxErrorText bounds what is kept of an error's text from the other side.
const maxErrorText = 4 << 10

// parseError reads the JSON of a Connect error, whether of a unary answer or
// from inside an end frame, or an [api.Problem] of the daemon. It never fails: bytes that are no such JSON become
// an error of the fallback code with their beginning as message.
func parseError(data []byte, fallback string) *Error {
	var e struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
		Kind    any             `json:"kind"` // of a problem, as its status, which alone may stand for several kinds
		Status  any             `json:"status"`
		Gone    any             `json:"gone"`
	}
	if json.Unmarshal(data, &e) != nil {
		return &Error{Code: fallback, Message: clip(string(data))}
	}
	kind, _ := e.Kind.(string)
	out := &Error{Code: codeOf(api.Kind(kind), fallback), Message: clip(cmp.Or(e.Message, e.Detail)), Gone: e.Gone == true || e.Status == float64(http.StatusGone)}
	var name string
	if json.Unmarshal(e.Code, &name) == nil && name != "" {
		out.Code = clip(name)
	}
	return out
}

// ParseAnswer returns the error of an answer of a plain path whose status is no success.
func ParseAnswer(status int, body []byte) *Error {
	e := parseError(body, codeOfStatus(status))
	if e.Message == "" {
		e.Message = "unexpected guest response: " + http.StatusText(status)
	}
	return e
}

// clip bounds a text that came from the other side, and takes from it what steers a
// terminal or a log: it ends up in records and before people.
func clip(s string) string {
	if len(s) > maxErrorText {
		s = s[:maxErrorText]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, s)
}

// codeOfStatus is the code for an answer whose body says none: that of a proxy,
// or of the plain paths, which answer with HTTP statuses.
func codeOfStatus(status int) string {
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestedRangeNotSatisfiable,
		http.StatusUnsupportedMediaType, http.StatusRequestHeaderFieldsTooLarge:
		return CodeInvalidArgument
	case http.StatusUnauthorized:
		return CodeUnauthenticated
	case http.StatusForbidden:
		return CodePermissionDenied
	case http.StatusNotFound:
		return CodeNotFound
	case http.StatusConflict:
		return CodeAlreadyExists
	case http.StatusTooManyRequests, http.StatusInsufficientStorage, http.StatusRequestEntityTooLarge:
		return CodeResourceExhausted
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return CodeUnimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGone:
		return CodeUnavailable
	case http.StatusGatewayTimeout:
		return CodeDeadlineExceeded
	}
	return CodeUnknown
}
