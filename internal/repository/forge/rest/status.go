package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// statusError is the cause of an error from an error answer. It has no text of its own.
type statusError struct {
	code int
	date time.Time // of the answer, zero if it has none
	wait error     // a *forge.Wait if the answer says how long its rate limit lasts
}

func (a *statusError) Error() string { return "" }
func (a *statusError) Unwrap() error { return a.wait }

// status turns an error answer into an error.
func (c *client) status(resp *http.Response, body []byte) error {
	kind := kindOf(resp.StatusCode)
	until, limited := limit(resp, c.cfg.Now())
	text := errorText(body)
	// GitHub sometimes reports a secondary limit only in the message.
	if resp.StatusCode == http.StatusForbidden && strings.Contains(strings.ToLower(text), "rate limit") {
		limited = true
	}
	if limited {
		kind = api.KindExhausted
	}
	e := c.errorf(kind, "%s %s was answered with %d: %s", resp.Request.Method, resp.Request.URL.Path, resp.StatusCode,
		cmp.Or(text, strings.ToLower(http.StatusText(resp.StatusCode))))
	cause := &statusError{code: resp.StatusCode}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		cause.date = at
	}
	e.Err = cause
	host := c.cfg.Location.Host
	switch {
	case limited && !until.IsZero():
		cause.wait = &forge.Wait{Until: until}
		return e.WithHint("The rate limit is used up. %s takes calls again at %s.", host, until.UTC().Format(time.RFC3339))
	case limited:
		return e.WithHint("The rate limit is used up. Try again in a while.")
	case kind == api.KindUnauthenticated:
		return e.WithHint("The token for %s was refused: make a new one and set it.", host)
	case kind == api.KindDenied:
		return e.WithHint("The token for %s may not do that: it must be able to read the repository and to write merge requests.", host)
	case kind == api.KindNotFound:
		return e.WithHint("Is %s right? A forge also says so of what the token may not see.", c.cfg.Location)
	}
	return e
}

func kindOf(code int) api.Kind {
	switch code {
	case http.StatusUnauthorized:
		return api.KindUnauthenticated
	case http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return api.KindDenied
	case http.StatusNotFound, http.StatusGone:
		return api.KindNotFound
	case http.StatusConflict, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed, http.StatusLocked:
		return api.KindConflict
	case http.StatusTooManyRequests:
		return api.KindExhausted
	case http.StatusRequestTimeout:
		return api.KindUnavailable
	}
	if code >= 500 {
		return api.KindUnavailable
	}
	return api.KindInvalid
}

// maxWait is the maximum delay that a server can ask for.
const maxWait = 24 * time.Hour

// limit reports whether an answer is a rate limit, and when it ends, if known:
// 429 everywhere; at GitHub also 403 with no calls left or with Retry-After.
func limit(resp *http.Response, now time.Time) (until time.Time, limited bool) {
	h := resp.Header
	limited = resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode == http.StatusForbidden && (h.Get("X-RateLimit-Remaining") == "0" || h.Get("Retry-After") != "")
	if !limited {
		return time.Time{}, false
	}
	if s := h.Get("Retry-After"); s != "" {
		if n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31); err == nil {
			return now.Add(min(time.Duration(n)*time.Second, maxWait)), true
		}
		if at, err := http.ParseTime(s); err == nil {
			return clamp(at, now), true
		}
	}
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
		if n, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && n > 0 {
			return clamp(time.Unix(min(n, now.Add(maxWait).Unix()), 0), now), true
		}
	}
	return time.Time{}, true
}

func clamp(at, now time.Time) time.Time {
	if at.Before(now) {
		return now
	}
	if most := now.Add(maxWait); at.After(most) {
		return most
	}
	return at
}

// errorText returns the messages of an error answer: {"message": TEXT} or a list or map of
// texts in its place, {"error": TEXT}, and GitHub's {"errors": [{"message"}]}.
func errorText(body []byte) string {
	var answer struct {
		Message any `json:"message"`
		Error   any `json:"error"`
		Errors  any `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	var words []string
	for _, v := range []any{answer.Message, answer.Error, answer.Errors} {
		words = append(words, texts(v, 0)...)
	}
	return strings.Join(words[:min(len(words), 10)], ": ")
}

func texts(v any, depth int) []string {
	if depth > 3 {
		return nil
	}
	var all []string
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v[:min(len(v), 10)] {
			all = append(all, texts(e, depth+1)...)
		}
	case map[string]any:
		if m, ok := v["message"].(string); ok && m != "" {
			return []string{m}
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys[:min(len(keys), 10)] {
			for _, s := range texts(v[k], depth+1) {
				all = append(all, fmt.Sprintf("%s %s", k, s))
			}
		}
	}
	return all
}

// maxText is the maximum size of a server's text in an error, in bytes.
const maxText = 400

// sanitize turns a server's text into one short line without the token.
func (c *client) sanitize(s string) string {
	if c.cfg.Token != "" {
		s = strings.ReplaceAll(s, c.cfg.Token, "[token]")
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}
