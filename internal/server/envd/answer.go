package envd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/preview"
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
	text, err := json.Marshal(p)
	if err != nil {
		text = []byte("{}")
	}
	// With a length, the header is the same, in the same order, if another node passes the answer on: nobody learns where a sandbox is.
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(p.Code)
	_, _ = w.Write(append(text, '\n')) // the client is gone: nobody is left to tell
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

// absent answers a request for a port of a sandbox that does not run; the row is zero if it ended or never was. A browser gets
// a page that says more than the answer for programs: who opens the address could reach the port if the sandbox ran.
func absent(w http.ResponseWriter, r *http.Request, t target, row api.Sandbox) {
	if !preview.Browser(r) {
		notFound(w, t.id)
		return
	}
	id := string(t.id)
	p := preview.Page{Status: http.StatusBadGateway, Title: "There is no such sandbox", Text: "Sandbox " + id + " has ended, its time to live has expired, or it never existed.",
		Next: "hortus sandbox ls lists the sandboxes that live. Create a new one, and open its address."}
	switch row.State {
	case api.SandboxStarting:
		p.Title, p.Text, p.Next, p.Reload = "The sandbox is starting", "Sandbox "+id+" does not serve yet.", "This page reloads itself.", true
	case api.SandboxPaused:
		p.Title, p.Text, p.Next = "The sandbox is paused", "Sandbox "+id+" is paused: its programs do not run.", "Resume it with hortus sandbox resume "+id+", then reload this page."
	}
	p.Write(w)
}

// private answers a request for a private port without what allows it.
func private(w http.ResponseWriter, r *http.Request, t target, title string) {
	if !preview.Browser(r) {
		problem{Sandbox: t.id, Message: "The traffic access token is missing or invalid", Code: http.StatusForbidden}.write(w)
		return
	}
	preview.Page{Status: http.StatusForbidden, Title: title, Text: fmt.Sprintf("Port %d of sandbox %s opens with a link that works once.", t.port, t.id),
		Next: fmt.Sprintf("Who owns the sandbox makes such a link: hortus sandbox url %s %d", t.id, t.port)}.Write(w)
}

// portFailed reports why a port did not serve.
func portFailed(w http.ResponseWriter, r *http.Request, t target, err error) {
	p := problem{Sandbox: t.id, Port: t.port, Code: http.StatusBadGateway, Message: "Invalid response from the port"}
	switch {
	case errors.Is(err, envd.ErrPortClosed):
		p.Message = "The sandbox is running but port is not open"
	case api.KindOf(err) == api.KindExhausted:
		p.Code, p.Message = http.StatusTooManyRequests, "Too many connections to the sandbox are open"
	case api.KindOf(err) == api.KindUnsupported:
		p.Code, p.Message = http.StatusBadRequest, err.Error()
	}
	if preview.Browser(r) {
		page := preview.Page{Status: p.Code, Title: fmt.Sprintf("Port %d did not answer", t.port), Text: p.Message + ".",
			Next: fmt.Sprintf("If the program does not use HTTP, forward the port: hortus sandbox forward %s %d", t.id, t.port)}
		if errors.Is(err, envd.ErrPortClosed) {
			page.Title, page.Text = fmt.Sprintf("Nothing listens on port %d", t.port), fmt.Sprintf("Sandbox %s runs, but no program in it listens on port %d.", t.id, t.port)
			page.Next, page.Reload = "Start the program. It can listen on 127.0.0.1, ::1 or all addresses. This page reloads itself.", true
		}
		page.Write(w)
		return
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
