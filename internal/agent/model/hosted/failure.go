package hosted

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// Endpoint says whose errors are reported: what a person calls the model, the key
// that must not show, and what to do about it.
type Endpoint struct {
	// Vendor begins every message: "anthropic".
	Vendor string
	// Model is the vendor's name of the model.
	Model string
	// BaseURL is where it is asked.
	BaseURL string
	// Key is taken out of every message.
	Key string
	// KeyHint is how a person sets the key.
	KeyHint string
	// Choice is how a person chooses a model; empty means with --model. Ability is what the model must be able to do;
	// empty means what a model of a role must.
	Choice, Ability string
}

// maxText is the most of a server's words that a message holds.
const maxText = 300

// Errorf makes an error of the endpoint.
func (e Endpoint) Errorf(kind api.Kind, format string, args ...any) *api.Error {
	return &api.Error{Kind: kind, Message: e.Vendor + ": " + e.clean(fmt.Sprintf(format, args...))}
}

// NoKey is the error of a call that cannot be made without a key.
func (e Endpoint) NoKey() error {
	return e.Errorf(api.KindUnauthenticated, "no API key for %s", e.BaseURL).WithHint("%s", e.KeyHint)
}

// Status turns an answer with an error into an error. The class is the vendor's
// own word for it ("overloaded_error"), text what it says.
func (e Endpoint) Status(code int, class, text string, header http.Header) error {
	if class == "" {
		class = strings.ToLower(http.StatusText(code))
	}
	said := class
	if text = strings.TrimSpace(text); text != "" {
		said += ": " + text
	}
	if code >= 300 {
		said = fmt.Sprintf("%d %s", code, said)
	}
	err := e.Errorf(kindOf(code, class), "%s", said)
	switch err.Kind {
	case api.KindUnauthenticated:
		err = err.WithHint("The API key was rejected. %s", e.KeyHint)
	case api.KindDenied:
		err = err.WithHint("The API key lacks a permission or the account lacks credit: check both, or set another key. %s", e.KeyHint)
	case api.KindNotFound:
		err = err.WithHint("Check that %q is a model of %s and that the base URL is correct, or set another model: %s %s:MODEL.", e.Model, e.BaseURL, cmp.Or(e.Choice, "--model"), e.Vendor)
	case api.KindInvalid:
		err = err.WithHint("The API rejected the request. Check that the model %q supports %s.", e.Model, cmp.Or(e.Ability, "tools and streaming"))
	}
	if wait, ok := retryAfter(header, time.Now()); ok {
		err.Err = &model.Wait{For: wait}
	}
	return err
}

// kindOf classes a status. An error inside a stream comes with 200, so that its
// class alone decides.
func kindOf(code int, class string) api.Kind {
	switch class {
	case "insufficient_quota", "billing_error", "billing_hard_limit_reached":
		return api.KindDenied // waiting does not fill an account
	}
	switch {
	case code == http.StatusUnauthorized:
		return api.KindUnauthenticated
	case code == http.StatusForbidden, code == http.StatusPaymentRequired:
		return api.KindDenied
	case code == http.StatusNotFound:
		return api.KindNotFound
	case code == http.StatusTooManyRequests:
		return api.KindExhausted
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return api.KindTimeout
	case code >= 500, code == http.StatusConflict:
		return api.KindUnavailable
	case code >= 400:
		return api.KindInvalid
	}
	switch class {
	case "authentication_error", "invalid_api_key":
		return api.KindUnauthenticated
	case "permission_error":
		return api.KindDenied
	case "not_found_error", "model_not_found":
		return api.KindNotFound
	case "rate_limit_error", "rate_limit_exceeded":
		return api.KindExhausted
	case "timeout_error":
		return api.KindTimeout
	case "invalid_request_error", "invalid_prompt":
		return api.KindInvalid
	}
	return api.KindUnavailable
}

// Failure turns any other error of a call into one of the contract's.
func (e Endpoint) Failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var own *api.Error
	if errors.As(err, &own) {
		c := e.Errorf(own.Kind, "%s", own.Message)
		c.Hint, c.Err = own.Hint, own.Err
		return c
	}
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return e.Cut()
	case errors.As(err, &syntax), errors.As(err, &typed):
		return e.Errorf(api.KindUnavailable, "cannot parse the answer: %v", err)
	}
	return e.Errorf(api.KindUnavailable, "%v", err).
		WithHint("Check the network and the base URL (%s).", e.BaseURL)
}

// Cut is the error of a stream that ended before its answer did.
func (e Endpoint) Cut() error {
	return e.Errorf(api.KindUnavailable, "the answer is truncated")
}

// Declined is the error of a refusal. why is the model's reason; it may be empty.
func (e Endpoint) Declined(why string) error {
	return e.Errorf(api.KindDeclined, "%s refused to answer: %s", e.Model, cmp.Or(strings.TrimSpace(why), "no reason given")).
		WithHint("Rephrase the request, or choose another model with --model.")
}

// clean makes a server's words one short line without the key.
func (e Endpoint) clean(s string) string {
	if e.Key != "" {
		s = strings.ReplaceAll(s, e.Key, "[key]")
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}

// maxWait bounds what a server can ask for.
const maxWait = 24 * time.Hour

// retryAfter reads how long a server wants its callers to wait.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	seconds, unit := h.Get("Retry-After-Ms"), time.Millisecond
	if seconds == "" {
		seconds, unit = h.Get("Retry-After"), time.Second
	}
	if seconds == "" {
		return 0, false
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64); err == nil {
		if math.IsNaN(n) || n < 0 {
			return 0, false
		}
		return time.Duration(min(n*float64(unit), float64(maxWait))), true
	}
	at, err := http.ParseTime(seconds)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxWait), true
}
