package githttp

import (
	"fmt"
	"net/http"
	"strings"

	"hortus.dev/api/secrets"
)

// Refusal is a request that the rule does not allow, or that is not git's smart HTTP protocol.
type Refusal struct {
	Reason string
	// Hint says what is allowed, or what to do.
	Hint string

	// push is the push that was refused, if its commands were read.
	push *push
	// ref is the ref that was refused; empty if it was the whole push.
	ref string
}

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// refuse returns a refusal with the hint of a rule.
func refuse(rule secrets.Git, format string, args ...any) *Refusal {
	return &Refusal{Reason: "git: " + fmt.Sprintf(format, args...), Hint: describe(rule)}
}

// describe says what a rule allows.
func describe(rule secrets.Git) string {
	var can []string
	if rule.Fetch {
		can = append(can, "fetch")
	}
	if len(rule.Push) > 0 {
		refs := rule.Push
		if len(refs) > 8 {
			refs = append(append([]string{}, refs[:8]...), "...")
		}
		kinds := "create and fast-forward"
		if rule.Force {
			kinds = "create, update and force"
		}
		if rule.Delete {
			kinds += ", delete"
		}
		can = append(can, fmt.Sprintf("push to %s (%s)", strings.Join(refs, " "), kinds))
	}
	return fmt.Sprintf("Allowed in the repository %s: %s.", repository(rule), strings.Join(can, ", "))
}

// Answer returns the response to the client. For a push it is the report of git's own protocol,
// which git shows for each ref: of another status than 200 it shows the number only. Otherwise it
// is 403 with a text, which git shows when it asks for the list of refs.
func (r *Refusal) Answer() (status int, contentType string, body []byte) {
	if r.push == nil || !r.push.report {
		text := "hortus: " + r.Reason + "\n"
		if r.Hint != "" {
			text += r.Hint + "\n"
		}
		return http.StatusForbidden, "text/plain; charset=utf-8", []byte(text)
	}
	report := appendLine(nil, "unpack ok\n")
	for _, c := range r.push.commands {
		why := "the push was refused"
		if r.ref == c.ref {
			why = "not allowed"
		}
		report = appendLine(report, "ng "+c.ref+" "+why+"\n")
	}
	report = append(report, flush...)
	if !r.push.sideband {
		return http.StatusOK, resultType(receivePack), report
	}
	body = appendLine(nil, "\x02"+"hortus: "+clip(r.Reason, 900)+"\n"+clip(r.Hint, 9000)+"\n")
	for len(report) > 0 {
		n := min(len(report), maxLine-5)
		body = appendLine(body, "\x01"+string(report[:n]))
		report = report[n:]
	}
	return http.StatusOK, resultType(receivePack), append(body, flush...)
}

// clip shortens a text to n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
