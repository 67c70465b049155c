package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"hortus.dev/api"
)

// CreateExec runs a command and returns its record when it has started. It continues
// whether or not anybody reads its output: Attach does, from any offset.
func (s *Sandbox) CreateExec(ctx context.Context, req api.ExecRequest) (api.Exec, error) {
	var out api.Exec
	return out, s.client.call(ctx, http.MethodPost, s.path("/execs"), req, &out)
}

// Exec returns the record of a command.
func (s *Sandbox) Exec(ctx context.Context, id api.ExecID) (api.Exec, error) {
	var out api.Exec
	return out, s.client.call(ctx, http.MethodGet, s.exec(id, ""), nil, &out)
}

// SendInput writes to the input of a command, and ends it where last is set. It
// returns when the command has taken what there was.
func (s *Sandbox) SendInput(ctx context.Context, id api.ExecID, r io.Reader, last bool) error {
	q := url.Values{}
	if last {
		q.Set("close", "true")
	}
	resp, err := s.client.send(ctx, http.MethodPost, s.exec(id, "/stdin"), q, r, "application/octet-stream")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// SignalExec sends a signal, from 1 to 31, to a command's process group.
func (s *Sandbox) SignalExec(ctx context.Context, id api.ExecID, signal int) error {
	return s.client.call(ctx, http.MethodPost, s.exec(id, "/signal"), api.SignalExec{Signal: signal}, nil)
}

// KillExec kills a command's process group and returns when its end was seen.
func (s *Sandbox) KillExec(ctx context.Context, id api.ExecID) (api.KilledExec, error) {
	var out api.KilledExec
	return out, s.client.call(ctx, http.MethodPost, s.exec(id, "/kill"), nil, &out)
}

func (s *Sandbox) exec(id api.ExecID, rest string) string {
	return s.path("/execs/" + string(id) + rest)
}
