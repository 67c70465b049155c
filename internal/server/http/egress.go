package http

import (
	"context"
	"net/http"
	"time"

	"hortus.dev/api"
)

// Egress is what the server asks about what sandboxes may connect to.
type Egress interface {
	SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error)
	AddEgressRules(ctx context.Context, id api.SandboxID, req api.AddEgressRules) (api.Sandbox, error)
	// RevokeSecret takes a secret from a sandbox.
	RevokeSecret(ctx context.Context, id api.SandboxID, name string) (api.Sandbox, error)
	// EgressPage lists decisions, the newest first. next is where the next page begins, ""
	// after the last.
	EgressPage(ctx context.Context, f api.EgressFilter, p api.PageRequest) (rows []api.EgressDecision, next string, err error)
	// EgressAsks lists the connections that wait for a person, the oldest first.
	EgressAsks(ctx context.Context) ([]api.EgressAsk, error)
	AnswerEgressAsk(ctx context.Context, id string, answer api.AnswerEgressAsk) error
}

// maxAskID bounds the identifier of a question, in bytes.
const maxAskID = 64

func (d egress) egressRoutes() []Route {
	const one = "/v1/sandboxes/{id}/egress"
	return []Route{{
		Method: "PUT", Pattern: one, Name: "setEgress", Role: api.RoleUser,
		Doc: "Replace what the sandbox may connect to. Open connections that the new policy does not allow are closed.",
		In:  api.EgressPolicy{}, Out: api.Sandbox{},
		Handler: change(http.StatusOK, decode, d.Egress, sandboxID(d.Sandboxes), func(e Egress, ctx context.Context, id api.SandboxID, in api.EgressPolicy) (v api.Sandbox, err error) {
			if err := in.CheckBounds(); err != nil {
				return v, err
			}
			return e.SetEgress(ctx, id, in)
		}),
	}, {
		Method: "POST", Pattern: one + "/rules", Name: "addEgressRules", Role: api.RoleUser,
		Doc: "Add rules before the others of the sandbox's policy. Concurrent requests all take effect.",
		In:  api.AddEgressRules{}, Out: api.Sandbox{},
		Handler: change(http.StatusOK, decode, d.Egress, sandboxID(d.Sandboxes), func(e Egress, ctx context.Context, id api.SandboxID, in api.AddEgressRules) (v api.Sandbox, err error) {
			if err := in.CheckBounds(); err != nil {
				return v, err
			}
			return e.AddEgressRules(ctx, id, in)
		}),
	}, {
		Method: "GET", Pattern: "/v1/egress", Name: "egress", Role: api.RoleUser,
		Doc: "List the decisions about outgoing connections, newest first. Text in them that is from a sandbox is untrusted.",
		Out: []api.EgressDecision{}, Paged: true, Params: []Param{
			{Name: "sandbox", Doc: "Only those of this sandbox: its id or a unique prefix of it.", Type: ""},
			{Name: "result", Doc: "Only those with this result.", Type: api.EgressResult("")},
			{Name: "host", Doc: "Only those about this host; *.example.org is every name below example.org.", Type: ""},
			{Name: "since", Doc: "Start of the period, in RFC 3339 (default: all stored decisions).", Type: time.Time{}},
		},
		Handler: page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]api.EgressDecision, string, error) {
			f, err := d.filter(r)
			if err != nil {
				return nil, "", err
			}
			return d.Egress.EgressPage(ctx, f, p)
		}),
	}, {
		Method: "GET", Pattern: "/v1/egress/asks", Name: "egressAsks", Role: api.RoleUser,
		Doc: "List the connections that wait for a person, oldest first.",
		Out: []api.EgressAsk{},
		Handler: give(func(r *http.Request) ([]api.EgressAsk, error) {
			all, err := d.Egress.EgressAsks(r.Context())
			if all == nil {
				all = []api.EgressAsk{}
			}
			return all, err
		}),
	}, {
		Method: "POST", Pattern: "/v1/egress/asks/{ask}", Name: "answerEgressAsk", Role: api.RoleUser,
		Doc: "Allow or deny a connection that waits, and add the answer to the sandbox's policy if remember is set.",
		In:  api.AnswerEgressAsk{}, Status: http.StatusNoContent,
		Handler: d.answerAsk,
	}}
}

// filter reads which decisions are wanted.
func (d egress) filter(r *http.Request) (f api.EgressFilter, err error) {
	q := r.URL.Query()
	f.Result, f.Host = api.EgressResult(q.Get("result")), q.Get("host")
	switch f.Result {
	case "", api.EgressAllowed, api.EgressDenied, api.EgressFailed, api.EgressWaiting, api.EgressDropped, api.EgressAlarm:
	default:
		return f, api.Errorf(api.KindInvalid, "unknown result %.40q", f.Result).
			WithHint("use %s, %s, %s, %s, %s or %s", api.EgressAllowed, api.EgressDenied, api.EgressFailed, api.EgressWaiting, api.EgressDropped, api.EgressAlarm)
	}
	if len(f.Host) > api.MaxEgressHost {
		return f, api.Errorf(api.KindInvalid, "the host has %d bytes; the maximum is %d", len(f.Host), api.MaxEgressHost)
	}
	if s := q.Get("since"); s != "" {
		if f.Since, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return f, api.Errorf(api.KindInvalid, "since %.40q is not an RFC 3339 time", s)
		}
	}
	// Decisions outlive their sandbox, so a whole identifier is not looked up.
	if s := q.Get("sandbox"); s != "" {
		if f.Sandbox = api.SandboxID(s); !f.Sandbox.Valid() {
			f.Sandbox, err = d.Sandboxes.Find(r.Context(), s)
		}
	}
	return f, err
}

func (d egress) answerAsk(w http.ResponseWriter, r *http.Request) error {
	var in api.AnswerEgressAsk
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if in.Action != api.EgressAllow && in.Action != api.EgressDeny {
		return api.Errorf(api.KindInvalid, "action %.40q is not %q or %q", in.Action, api.EgressAllow, api.EgressDeny)
	}
	id := r.PathValue("ask")
	if len(id) > maxAskID {
		return api.Errorf(api.KindNotFound, "unknown egress question %.64q", id)
	}
	return done(w, d.Egress.AnswerEgressAsk(r.Context(), id, in))
}
