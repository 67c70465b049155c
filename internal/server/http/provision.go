package http

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
)

// Provisions is what the server asks of sandboxes that belong to callers' own tasks.
// Each takes the account from the context; what is another's is not there.
type Provisions interface {
	// Provision returns the sandbox of a task, and whether it was made now.
	Provision(ctx context.Context, req api.ProvisionRequest) (s api.Sandbox, made bool, err error)
	// Wait waits until the sandbox runs, and fails with KindTimeout when that takes
	// longer. Like the others it takes the sandbox's id or the task's.
	Wait(ctx context.Context, idOrTask string, timeout time.Duration) (api.Sandbox, error)
	Find(ctx context.Context, idOrTask string) (api.Sandbox, error)
	Destroy(ctx context.Context, idOrTask string) (api.Sandbox, api.Proof, error)
}

// Code runs pieces of code in sandboxes.
type Code interface {
	Execute(ctx context.Context, id api.SandboxID, req api.ExecuteRequest) (api.Executed, error)
}

// Tokens makes and checks the proof that a URL of a sandbox carries.
type Tokens interface {
	Envd(id string) string
	CheckEnvd(id, got string) bool
}

func (d provisions) provisionRoutes() []Route {
	const one = "/v1/provision/{id}"
	return []Route{{
		Method: "POST", Pattern: "/v1/provision", Name: "provision", Role: api.RoleUser, Creates: true,
		Doc: "Create the sandbox of a task of the caller. While the sandbox runs, the same request returns the same sandbox (200 instead of 201), " +
			"and another request for the task is a conflict.",
		In: api.ProvisionRequest{}, Out: api.Provisioned{}, Status: http.StatusCreated,
		Handler: d.provision,
	}, {
		Method: "GET", Pattern: one, Name: "provisioned", Role: api.RoleUser, Stored: true,
		Doc: "Get the sandbox of a task, by the id of the sandbox or of the task: the running one, or the last one.",
		Out: api.Provisioned{},
		Handler: d.onProvisions(func(w http.ResponseWriter, r *http.Request) error {
			s, err := d.Provisions.Find(r.Context(), r.PathValue("id"))
			return reply(w, http.StatusOK, d.view(r, s), err)
		}),
	}, {
		Method: "POST", Pattern: one + "/wait", Name: "waitProvisioned", Role: api.RoleUser,
		Doc: "Wait until the sandbox runs, at most timeout seconds (1 to 600, default 30).",
		In:  api.WaitRequest{}, Optional: true, Out: api.Provisioned{},
		Handler: d.onProvisions(d.waitProvisioned),
	}, {
		Method: "DELETE", Pattern: one, Name: "destroyProvisioned", Role: api.RoleUser,
		Doc: "Kill the sandbox of a task and return the proof that nothing of it is left. One that has ended stays as it is.",
		Out: api.Destroyed{},
		Handler: d.onProvisions(func(w http.ResponseWriter, r *http.Request) error {
			s, proof, err := d.Provisions.Destroy(r.Context(), r.PathValue("id"))
			return reply(w, http.StatusOK, api.Destroyed{Sandbox: d.view(r, s), Proof: proof}, err)
		}),
	}, {
		Method: "POST", Pattern: "/v1/sandboxes/{id}/execute", Name: "execute", Role: api.RoleUser, Creates: true,
		Doc: "Run a piece of code and return its output. Files, packages and environment variables remain for the next piece.",
		In:  api.ExecuteRequest{}, Out: api.Executed{},
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			id, err := sandboxID(d.Sandboxes)(r)
			if err != nil {
				return err
			}
			return d.execute(w, r, id)
		},
	}, {
		Method: "POST", Pattern: "/v1/open/{id}/{token}/execute", Name: "executeByURL", Open: true, Creates: true, keyed: true,
		Doc: "Run a piece of code with the sandbox's URL instead of an API key: the token in the URL authorizes this sandbox only.",
		In:  api.ExecuteRequest{}, Out: api.Executed{},
		Handler: d.executeByURL,
	}}
}

// onProvisions serves a call that needs Provisions.
func (d provisions) onProvisions(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if d.Provisions == nil {
			return api.Errorf(api.KindUnsupported, "this daemon does not create sandboxes for tasks")
		}
		return h(w, r)
	}
}

func (d provisions) provision(w http.ResponseWriter, r *http.Request) error {
	// A time of 0 that was requested is out of bounds; one that was left out is not.
	var in struct {
		api.ProvisionRequest
		TTLSeconds *int64 `json:"ttlSeconds"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	req := in.ProvisionRequest
	if in.TTLSeconds != nil {
		if req.TTLSeconds = *in.TTLSeconds; req.TTLSeconds == 0 {
			req.TTLSeconds = -1
		}
	}
	if d.Provisions == nil {
		return api.Errorf(api.KindUnsupported, "this daemon does not create sandboxes for tasks")
	}
	s, isNew, err := d.Provisions.Provision(r.Context(), req)
	status := http.StatusOK
	if isNew {
		w.Header().Set("Location", "/v1/provision/"+string(s.ID))
		status = http.StatusCreated
	}
	return reply(w, status, d.view(r, s), err)
}

func (d provisions) waitProvisioned(w http.ResponseWriter, r *http.Request) error {
	var in api.WaitRequest
	err := decodeAny(w, r, &in)
	in.Timeout = cmp.Or(in.Timeout, 30)
	if err == nil && (in.Timeout < 1 || in.Timeout > api.MaxWait) {
		err = api.Errorf(api.KindInvalid, "timeout of %d s is out of range: use 1 to %d s", in.Timeout, api.MaxWait)
	}
	if err != nil {
		return err
	}
	s, err := d.Provisions.Wait(r.Context(), r.PathValue("id"), time.Duration(in.Timeout)*time.Second)
	return reply(w, http.StatusOK, d.view(r, s), err)
}

// view is a sandbox as the caller of a task knows it.
func (d provisions) view(r *http.Request, s api.Sandbox) api.Provisioned {
	if s.Provision == nil {
		return api.Provisioned{}
	}
	return api.Provisioned{
		SandboxID: s.ID, TaskID: s.Provision.TaskID, ImageID: s.Template, Status: s.State, SandboxURL: d.sandboxURL(r, s.ID),
		Isolation: s.Isolation, TTLSeconds: s.Provision.TTLSeconds,
		CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt, EndedAt: s.EndedAt, Reason: s.Reason,
	}
}

// sandboxURL is where a client of this request finds a sandbox. Programs that were
// written for such URLs send no key with them, so the URL itself is one where the
// daemon has tokens.
func (d provisions) sandboxURL(r *http.Request, id api.SandboxID) string {
	base := strings.TrimSuffix(d.URL, "/")
	if base == "" {
		u := url.URL{Scheme: "http", Host: r.Host}
		if r.TLS != nil {
			u.Scheme = "https"
		}
		base = u.String()
	}
	if d.Tokens == nil {
		return base + "/v1/sandboxes/" + string(id)
	}
	return base + "/v1/open/" + string(id) + "/" + d.Tokens.Envd(string(id))
}

// executeByURL runs code for anyone who has a sandbox's URL. Everything that is wrong
// with the URL is the same: it is no such URL.
func (d provisions) executeByURL(w http.ResponseWriter, r *http.Request) error {
	id := api.SandboxID(r.PathValue("id"))
	if d.Tokens == nil || !id.Valid() || !d.Tokens.CheckEnvd(string(id), r.PathValue("token")) {
		return api.Errorf(api.KindNotFound, "no sandbox at this URL")
	}
	// The token proves a right to this one sandbox, anyone who owns it. Its idempotency
	// keys are nobody else's.
	p := api.Operator()
	p.Account = "url:" + string(id)
	return d.once.creates(func(w http.ResponseWriter, r *http.Request) error { return d.execute(w, r, id) })(w, r.WithContext(api.WithPrincipal(r.Context(), p)))
}

func (d provisions) execute(w http.ResponseWriter, r *http.Request, id api.SandboxID) error {
	var in api.ExecuteRequest
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if d.Code == nil {
		return api.Errorf(api.KindUnsupported, "this daemon does not run pieces of code")
	}
	v, err := d.Code.Execute(r.Context(), id, in)
	return reply(w, http.StatusOK, v, err)
}
