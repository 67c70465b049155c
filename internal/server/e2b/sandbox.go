package e2b

import (
	"net/http"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

func (d sandboxes) register(to *router) {
	to.handle("POST /sandboxes", d.placed(to, d.create(true)))
	to.handle("POST /v2/sandboxes", d.placed(to, d.create(false)))
	to.handle("GET /sandboxes", d.listRunning, "metadata")
	to.handle("GET /v2/sandboxes", d.list, "metadata", "state*", "order", "limit", "nextToken", "startedAfter", "template")
	to.handle("GET /sandboxes/{id}", d.on(d.get))
	to.handle("DELETE /sandboxes/{id}", d.on(d.kill))
	to.handle("POST /sandboxes/{id}/timeout", d.on(d.setTimeout))
	to.handle("POST /sandboxes/{id}/refreshes", d.on(d.refresh))
	to.handle("POST /sandboxes/{id}/connect", d.on(d.connect(0))) // a client of this path says a timeout
	to.handle("POST /v2/sandboxes/{id}/connect", d.on(d.connect(defaultTimeout)))
	to.handle("POST /sandboxes/{id}/resume", d.on(d.resume))
	to.handle("POST /sandboxes/{id}/pause", d.on(d.pause))
	to.handle("PUT /sandboxes/{id}/network", d.on(d.setNetwork))
}

// finder finds sandboxes of requests.
type finder struct {
	Sandboxes Sandboxes
	forward   *forward.Forwarder
}

// findSandbox returns a sandbox that has not ended. One that is still starting is
// nobody's yet.
func (f finder) findSandbox(r *http.Request, id api.SandboxID) (api.Sandbox, error) {
	if !id.Valid() {
		return api.Sandbox{}, noSandbox(id)
	}
	s, err := f.Sandboxes.Get(r.Context(), id)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		err = noSandbox(id)
	case err == nil && s.State.Final():
		err = hasEnded(s) // only its own account gets as far as this
	}
	return s, err
}

// on serves a call about the sandbox in the path, on the node that has it. One that has ended is not there.
func (f finder) on(call func(w http.ResponseWriter, r *http.Request, s api.Sandbox) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := api.SandboxID(r.PathValue("id"))
		if id.Valid() {
			if done, err := f.forward.Pass(w, r, forward.About{Door: forward.DoorE2B, Kind: forward.Sandbox, ID: string(id)}); done || err != nil {
				return err
			}
		}
		s, err := f.findSandbox(r, id)
		if err != nil {
			return err
		}
		err = call(w, r, s)
		switch api.KindOf(err) {
		case api.KindNotFound:
			return noSandbox(id)
		case api.KindUnavailable:
			if _, gerr := f.findSandbox(r, id); api.KindOf(gerr) == api.KindNotFound {
				return gerr
			}
		}
		return err
	}
}

func (d sandboxes) get(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	if s.State == api.SandboxStarting {
		return noSandbox(s.ID)
	}
	return answer(w, http.StatusOK, d.detailOf(r, s))
}

func (d sandboxes) kill(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	_, _, err := d.Sandboxes.Kill(r.Context(), s.ID)
	return done(w, err)
}

// setTimeout moves the deadline to so many seconds from now, which may be sooner.
func (d sandboxes) setTimeout(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	var in struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	ms := int64(1) // zero is now
	if in.Timeout == nil || *in.Timeout != 0 {
		var err error
		if ms, err = milliseconds(in.Timeout, 0); err != nil {
			return err
		}
	}
	_, err := d.Sandboxes.SetTTL(r.Context(), s.ID, time.Duration(ms)*time.Millisecond)
	return done(w, err)
}

// refresh is what clients did before they set timeouts: it only makes a life longer.
func (d sandboxes) refresh(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	var in struct {
		Duration *int64 `json:"duration"`
	}
	if err := decodeAny(w, r, &in); err != nil {
		return err
	}
	const most = 3600
	seconds := int64(legacyTimeout)
	if in.Duration != nil {
		seconds = *in.Duration
	}
	if seconds <= 0 || seconds > most {
		return api.Errorf(api.KindInvalid, `option "duration": %d seconds is not between 1 and %d`, seconds, most)
	}
	_, err := d.Sandboxes.Extend(r.Context(), s.ID, time.Duration(seconds)*time.Second)
	return done(w, err)
}

// connectBody is what clients say who connect to a sandbox or resume it.
type connectBody struct {
	Timeout *int64 `json:"timeout"`
	Memory  *bool  `json:"memory"`
	// AutoPause is of the oldest resume alone.
	AutoPause *bool `json:"autoPause"`
}

// connect resumes a sandbox that is paused (201) and gives one that runs (200) at
// least so many seconds more.
func (d sandboxes) connect(byDefault int64) func(http.ResponseWriter, *http.Request, api.Sandbox) error {
	return func(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
		var in connectBody
		if err := decodeAny(w, r, &in); err != nil {
			return err
		}
		if in.AutoPause != nil {
			return api.Errorf(api.KindInvalid, `unknown option "autoPause"`)
		}
		return d.resumeSandbox(w, r, s, in, byDefault)
	}
}

// resume is connect as the oldest clients knew it: for what is paused.
func (d sandboxes) resume(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	var in connectBody
	if err := decodeAny(w, r, &in); err != nil {
		return err
	}
	switch {
	case s.State == api.SandboxRunning:
		return api.Errorf(api.KindConflict, "sandbox %s is already running", s.ID)
	case in.AutoPause != nil && *in.AutoPause != s.OnExpiry.Pauses():
		return refused("autoPause", "the action at the deadline is set when a sandbox is created")
	}
	return d.resumeSandbox(w, r, s, in, legacyTimeout)
}

func (d sandboxes) resumeSandbox(w http.ResponseWriter, r *http.Request, s api.Sandbox, in connectBody, byDefault int64) error {
	ms, err := milliseconds(in.Timeout, byDefault)
	if err != nil {
		return err
	}
	if err := d.checkMemory(r, s, in.Memory); err != nil {
		return err
	}
	s, resumed, err := d.Sandboxes.Connect(r.Context(), s.ID, time.Duration(ms)*time.Millisecond)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if resumed {
		status = http.StatusCreated
	}
	return answer(w, status, d.answerOf(r, s))
}

// checkMemory refuses to leave the memory of a paused sandbox out: what it continues
// with is what it was paused with.
func (d sandboxes) checkMemory(r *http.Request, s api.Sandbox, memory *bool) error {
	if memory == nil || *memory || s.State != api.SandboxPaused {
		return nil
	}
	if s.Snapshot != "" {
		saved, err := d.snapshots.GetSnapshot(r.Context(), s.Snapshot)
		if err != nil || saved.Kind == api.SnapshotFiles {
			return err // it has none
		}
	}
	return refused("memory", "a sandbox that was paused with its memory resumes with it; pause it with memory: false to keep the files only")
}

// pause saves a sandbox to disk and releases it. One that is paused is a conflict,
// which SDKs take for having been so already.
func (d sandboxes) pause(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := decodeAny(w, r, &in); err != nil {
		return err
	}
	if s.State == api.SandboxPaused {
		return api.Errorf(api.KindConflict, "sandbox %s is already paused", s.ID)
	}
	call := d.Sandboxes.PauseToDisk
	if in.Memory != nil && !*in.Memory {
		call = d.Sandboxes.PauseFiles
	}
	_, err := call(r.Context(), s.ID)
	return done(w, withOption("memory", err))
}
