package e2b

import (
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/body"
)

// maxBody bounds a request, in bytes.
const maxBody = 1 << 20

// requests is how bodies are taken here.
func requests() body.Form { return body.Form{Max: maxBody, Member: "option"} }

// decode reads a request's one JSON object into out. An option that out does not
// have is an error that names it.
func decode(w http.ResponseWriter, r *http.Request, out any) error {
	return requests().Decode(w, r, out)
}

// decodeAny is decode of a request that may have no body at all.
func decodeAny(w http.ResponseWriter, r *http.Request, out any) error {
	return requests().DecodeAny(w, r, out)
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body.Answer(w, status, v)
	return nil
}

// done answers that there is nothing to say, unless a call failed.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// wireError is an error as the SDKs read it.
type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	// Word is the kind, for programs.
	Word string `json:"error_code,omitempty"`
}

// Fail answers a request that did not come as far as the server, as the server would.
func Fail(w http.ResponseWriter, err error) {
	e := wireOf(err)
	sayWhen(w, err)
	body.Answer(w, e.Code, e)
}

// sayWhen says after which time the same may be tried again, if an error has it: in whole seconds, since SDKs try again by
// themselves, and read no other form.
func sayWhen(w http.ResponseWriter, err error) {
	if after := api.RetryAfterOf(err); after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
}

// wireOf turns an error into the wire's.
func wireOf(err error) wireError {
	kind := api.KindOf(err)
	out := wireError{Code: kind.HTTPStatus(), Message: err.Error(), Word: string(kind)}
	if hint := api.HintOf(err); hint != "" {
		out.Message += " (" + translateHint(hint) + ")"
	}
	switch kind {
	case api.KindInternal:
		// What happened may be about other tenants, and is of no use to this one.
		out.Message = "internal error; see the server's log"
	case api.KindUnavailable:
		// 503 is retried by SDKs, 404 is the end of a sandbox to them.
		if out.Code = http.StatusServiceUnavailable; api.GoneOf(err) {
			out.Code, out.Word = http.StatusNotFound, string(api.KindNotFound)
		}
	}
	return out
}

// fail writes an error.
func (to *router) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := wireOf(err)
	if to.stores && e.Word == string(api.KindExhausted) && api.RetryAfterOf(err) == 0 {
		e.Code = http.StatusInsufficientStorage // and not what would be there later
	} else if e.Code >= 500 {
		to.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	sayWhen(w, err)
	body.Answer(w, e.Code, e)
}

// noSandbox is what is said of every sandbox that the caller cannot have: the same
// words, whatever the reason.
func noSandbox(id api.SandboxID) error {
	return api.Errorf(api.KindNotFound, "sandbox %.40q was not found", id)
}

// hasEnded is noSandbox for a sandbox of the caller that has ended, with the reason. The SDKs read
// the code, which is the same.
func hasEnded(s api.Sandbox) error {
	reason := "no reason is recorded"
	if s.Reason != "" {
		reason = s.Reason
	}
	return api.Errorf(api.KindNotFound, "sandbox %s was not found: it has ended (%s)", s.ID, reason)
}

// refused is about an option that cannot be honoured.
func refused(option, format string, args ...any) error {
	return api.Errorf(api.KindUnsupported, "option %q: "+format, append([]any{option}, args...)...)
}

// withOption names the option that an error is about, where something is not possible
// here that it asks for.
func withOption(option string, err error) error {
	if api.KindOf(err) != api.KindUnsupported {
		return err
	}
	e := api.Errorf(api.KindUnsupported, "option %q: %w", option, err)
	if hint := api.HintOf(err); hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}
