package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api/secrets"
)

// never is how long a client is asked to wait for a budget that no time renews: clients that obey
// give up, and show the message.
const never = 365 * 24 * time.Hour

// exhausted answers a request that a budget refused: status 429, in the form of the API's own errors,
// and with what keeps clients from sending it again.
func exhausted(r *http.Request, model secrets.Model, name string, e *secrets.Exhausted, now time.Time) *http.Response {
	message := fmt.Sprintf("hortus: the request was refused: %v. It is a budget of the secret %s.", e, name)
	h := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Hortus-Egress": {"denied"}}
	if e.Busy {
		message += " Send it again when they have ended."
		h["X-Should-Retry"] = []string{"true"}
	} else {
		wait := never
		if e.Budget.Per == secrets.PerDay {
			now = now.UTC()
			wait = now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
			message += " It is renewed at 00:00 UTC."
		}
		message += " Do not send it again. The operator can raise the budget: hortus secret set " + name + " ... --budget AMOUNT"
		// The libraries of Anthropic and OpenAI obey the first, other clients the second.
		h["X-Should-Retry"] = []string{"false"}
		h["Retry-After"] = []string{strconv.Itoa(int(wait/time.Second) + 1)}
	}
	body, err := json.Marshal(errorOf(model, message, e))
	if err != nil {
		body = []byte("{}")
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: h,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// errorOf is an error as an API writes it.
func errorOf(model secrets.Model, message string, e *secrets.Exhausted) any {
	type object = map[string]any
	switch model {
	case secrets.Anthropic:
		return object{"type": "error", "error": object{"type": "rate_limit_error", "message": message}}
	case secrets.OpenAI:
		kind := "insufficient_quota"
		if e.Busy {
			kind = "rate_limit_exceeded"
		}
		return object{"error": object{"message": message, "type": kind, "param": nil, "code": kind}}
	case secrets.Gemini:
		quota := "HortusBudgetPerTask"
		switch e.Budget.Per {
		case secrets.PerDay:
			quota = "HortusBudgetPerDay"
		case secrets.PerTotal:
			quota = "HortusBudgetTotal"
		}
		return object{"error": object{"code": http.StatusTooManyRequests, "message": message, "status": "RESOURCE_EXHAUSTED", "details": []object{{
			"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []object{{"quotaId": quota, "description": message}},
		}}}}
	}
	return object{"error": object{"message": message}}
}
