package http

import (
	"context"
	"net/http"
	"time"

	"hortus.dev/api"
)

func (d *door) sandboxRoutes(mux *http.ServeMux) {
	const one = "/v1/sandboxes/{id}"
	mux.HandleFunc("POST /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		var in api.CreateSandbox
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		v, err := d.Sandboxes.Create(r.Context(), in)
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusCreated, v)
	})
	mux.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		all, err := flag(r, "all")
		if err != nil {
			fail(w, err)
			return
		}
		v, err := d.Sandboxes.List(r.Context(), all)
		if v == nil {
			v = []api.Sandbox{}
		}
		reply(w, v, err)
	})
	d.on(mux, "GET "+one, func(ctx context.Context, id api.SandboxID) (any, error) { return d.Sandboxes.Get(ctx, id) })
	d.on(mux, "GET "+one+"/stats", func(ctx context.Context, id api.SandboxID) (any, error) { return d.Sandboxes.Stats(ctx, id) })
	mux.HandleFunc("POST "+one+"/pause", d.pause)
	d.on(mux, "POST "+one+"/resume", func(ctx context.Context, id api.SandboxID) (any, error) { return d.Sandboxes.Resume(ctx, id) })
	d.on(mux, "GET "+one+"/execs", func(ctx context.Context, id api.SandboxID) (any, error) {
		v, err := d.Sandboxes.Execs(ctx, id)
		if v == nil {
			v = []api.Exec{}
		}
		return v, err
	})
	d.on(mux, "DELETE "+one, func(ctx context.Context, id api.SandboxID) (any, error) {
		s, proof, err := d.Sandboxes.Kill(ctx, id)
		return struct {
			Sandbox api.Sandbox `json:"sandbox"`
			Proof   api.Proof   `json:"proof"`
		}{s, proof}, err
	})
	mux.HandleFunc("POST "+one+"/ttl", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			TTLMS int64 `json:"ttlMs"`
		}
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		if in.TTLMS > api.MaxTTL.Milliseconds() {
			fail(w, api.Errorf(api.KindInvalid, "a time to live of %d ms is above the most, %d", in.TTLMS, api.MaxTTL.Milliseconds()))
			return
		}
		id, err := d.sandboxID(r)
		if err != nil {
			fail(w, err)
			return
		}
		v, err := d.Sandboxes.SetTTL(r.Context(), id, time.Duration(in.TTLMS)*time.Millisecond)
		reply(w, v, err)
	})
	mux.HandleFunc("GET "+one+"/hold", d.hold)
	mux.HandleFunc("GET "+one+"/events", func(w http.ResponseWriter, r *http.Request) {
		id, err := d.sandboxID(r)
		if err != nil {
			fail(w, err)
			return
		}
		d.events(w, r, api.Stream{Kind: api.StreamSandbox, ID: string(id)})
	})
	mux.HandleFunc("POST "+one+"/envd/process.Process/Start", d.start)
	mux.HandleFunc("POST "+one+"/envd/process.Process/Connect", d.connect)
	mux.Handle(one+"/envd/", d.proxy)
}

// on serves a call that takes a sandbox and gives a value.
func (d *door) on(mux *http.ServeMux, pattern string, call func(context.Context, api.SandboxID) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		id, err := d.sandboxID(r)
		if err != nil {
			fail(w, err)
			return
		}
		v, err := call(r.Context(), id)
		reply(w, v, err)
	})
}

// sandboxID takes the identifier out of the path: a whole one, or a unique
// beginning.
func (d *door) sandboxID(r *http.Request) (api.SandboxID, error) {
	raw := r.PathValue("id")
	if id := api.SandboxID(raw); id.Valid() {
		return id, nil
	}
	return d.Sandboxes.Find(r.Context(), raw)
}

// hold ties a sandbox's life to this connection: whatever ends the one ends the
// other.
func (d *door) hold(w http.ResponseWriter, r *http.Request) {
	id, err := d.sandboxID(r)
	if err == nil {
		_, err = d.Sandboxes.Get(r.Context(), id)
	}
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		// The byte finds connections that died without saying so.
		if _, err := w.Write([]byte("\n")); err != nil || rc.Flush() != nil {
			break
		}
		select {
		case <-r.Context().Done():
		case <-tick.C:
			if s, err := d.Sandboxes.Get(r.Context(), id); err == nil && s.State.Final() {
				return
			}
			continue
		}
		break
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 30*time.Second)
	defer cancel()
	if _, _, err := d.Sandboxes.Kill(ctx, id); err != nil {
		d.Logger.Error("held sandbox not killed; its deadline will", "sandbox", id, "error", err)
	}
}
