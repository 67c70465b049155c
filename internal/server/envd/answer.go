package envd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// problem is an error as E2B's clients read it.
type problem struct {
	Sandbox api.SandboxID `json:"sandboxId,omitempty"`
	Message string        `json:"message"`
	Port    int           `json:"port,omitempty"`
	Code    int           `json:"code"`
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if p.Code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Code)
	_ = json.NewEncoder(w).Encode(p) // the client is gone: nobody is left to tell
}

func refuse(w http.ResponseWriter, code int, message string) {
	problem{Message: message, Code: code}.write(w)
}

// notServed answers for a sandbox that does not run to a client that showed the sandbox's token: its
// message says why. The status is that of [notFound].
func (d *Server) notServed(w http.ResponseWriter, ctx context.Context, id api.SandboxID) {
	row, err := d.cfg.Sandboxes.Get(context.WithoutCancel(ctx), id)
	message := ""
	switch {
	case err != nil:
	case row.State.Final():
		message = "The sandbox has ended"
		if row.Reason != "" {
			message += " (" + row.Reason + ")"
		}
	case row.State == api.SandboxPaused:
		message = "The sandbox is paused: Sandbox.connect() resumes it"
	}
	if message == "" {
		notFound(w, id)
		return
	}
	problem{Sandbox: id, Message: message, Code: http.StatusBadGateway}.write(w)
}

// notFound answers for a sandbox that never was, has ended, or is paused: clients
// take the status for the end of the sandbox.
func notFound(w http.ResponseWriter, id api.SandboxID) {
	problem{Sandbox: id, Message: "The sandbox was not found", Code: http.StatusBadGateway}.write(w)
}

// portFailed reports why a port did not serve.
func portFailed(w http.ResponseWriter, t target, err error) {
	p := problem{Sandbox: t.id, Port: t.port, Code: http.StatusBadGateway, Message: "Invalid response from the port"}
	switch {
	case errors.Is(err, envd.ErrPortClosed):
		p.Message = "The sandbox is running but port is not open"
	case api.KindOf(err) == api.KindExhausted:
		p.Code, p.Message = http.StatusTooManyRequests, "Too many connections to the sandbox are open"
	case api.KindOf(err) == api.KindUnsupported:
		p.Code, p.Message = http.StatusBadRequest, err.Error()
	}
	p.write(w)
}

// notStored answers an upload that was refused.
func (d *Server) notStored(w http.ResponseWriter, r *http.Request, id api.SandboxID, err error) {
	if api.KindOf(err) != api.KindExhausted {
		d.guestFailed(w, r, id, err)
		return
	}
	problem{Sandbox: id, Message: err.Error(), Code: http.StatusInsufficientStorage}.write(w)
}

// guestFailed answers a request that the guest did not answer as agreed.
func (d *Server) guestFailed(w http.ResponseWriter, r *http.Request, id api.SandboxID, err error) {
	switch api.KindOf(err) {
	case api.KindInvalid:
		refuse(w, http.StatusBadRequest, err.Error())
	case api.KindExhausted:
		problem{Sandbox: id, Message: "Too many connections to the sandbox are open", Code: http.StatusTooManyRequests}.write(w)
	default:
		// Whether the sandbox ended, or its guest broke the wire: a client can do
		// nothing with it either way.
		if r.URL.Path == envd.PathHealth {
			notFound(w, id)
			return
		}
		d.notServed(w, r.Context(), id)
	}
}
