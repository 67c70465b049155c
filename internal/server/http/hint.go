package http

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// commands finds the first command of hortus in a hint, with what it is about, which ends before the end of a sentence.
var commands = lazyregexp.New(`hortus ([a-z]+)(?: ([a-z]+))?(?: ([A-Za-z0-9](?:[\w.-]*\w)?))?`)

// calls are the requests that do what a command does. ID stands for what the command names.
var calls = map[string]string{
	"sandbox resume": "POST /v1/sandboxes/ID/resume", "sandbox create": "POST /v1/sandboxes", "sandbox kill": "DELETE /v1/sandboxes/ID",
	"sandbox snapshot": "POST /v1/sandboxes/ID/snapshots", "sandbox exec": "POST /v1/sandboxes/ID/execs", "sandbox ls": "GET /v1/sandboxes",
	"sandbox show": "GET /v1/sandboxes/ID", "sandbox stats": "GET /v1/sandboxes/ID/stats", "sandbox cp": "GET /v1/sandboxes/ID/files?path=PATH",
	"template create": "POST /v1/templates", "template ls": "GET /v1/templates", "template rm": "DELETE /v1/snapshots/ID",
	"template export": "GET /v1/templates/ID/export", "snapshot ls": "GET /v1/snapshots", "snapshot show": "GET /v1/snapshots/ID",
	"secret set": "PUT /v1/secrets/ID", "secret ls": "GET /v1/secrets", "secret rm": "DELETE /v1/secrets/ID", "key create": "POST /v1/keys",
	"task show": "GET /v1/tasks/ID", "task diff": "GET /v1/tasks/ID/diff", "task apply": "GET /v1/tasks/ID/diff", "task watch": "GET /v1/tasks/ID/events",
	"task cancel": "POST /v1/tasks/ID/cancel", "task reply": "POST /v1/tasks/ID/reply", "task ls": "GET /v1/tasks",
	"workspace ls": "GET /v1/workspaces", "workspace create": "POST /v1/workspaces", "workspace rm": "DELETE /v1/workspaces/ID",
	"session show": "GET /v1/sessions/ID", "session ls": "GET /v1/sessions", "session cancel": "POST /v1/sessions/ID/cancel",
	"plan show": "GET /v1/plans/ID", "plan ls": "GET /v1/plans", "plan workstreams": "GET /v1/workstreams", "plan cancel": "POST /v1/plans/ID/cancel",
	"plan retry": "POST /v1/plans/ID/retry", "plan answer": "POST /v1/plans/ID/answer", "plan start": "POST /v1/plans",
	"session close": "DELETE /v1/sessions/ID", "session fork": "POST /v1/sessions/ID/fork",
	"repo sync": "POST /v1/repositories/ID/sync", "repo ls": "GET /v1/repositories",
	"doctor": "GET /v1/doctor", "df": "GET /v1/disk", "gc": "POST /v1/collect",
}

// problemOf returns the problem of an error. A hint may name a command; the clients of this API
// have requests.
func problemOf(err error, status int) api.Problem {
	p := api.ProblemOf(err, status)
	m := commands.FindStringSubmatch(p.Hint)
	if m == nil {
		return p
	}
	call, about := calls[m[1]+" "+m[2]], m[3]
	if call == "" {
		call, about = calls[m[1]], ""
	}
	if about != "" {
		call = strings.Replace(call, "ID", about, 1)
	}
	p.Call = call
	return p
}
