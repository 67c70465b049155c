package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"

	"hortus.dev/api"
)

// RunCode runs a piece of code in the sandbox's code interpreter and yields its events; what it defines stays
// for the next piece in its context. The code is interrupted when the loop is left or ctx ends. An error of the
// code is an event, not an error.
//
// Errors: KindInvalid for a language that the sandbox does not have, KindNotFound for an unknown context,
// KindUnavailable where the stream ends early.
func (s *Sandbox) RunCode(ctx context.Context, req api.RunCode) iter.Seq2[api.CodeEvent, error] {
	return func(yield func(api.CodeEvent, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := s.client.request(ctx, "POST", s.path("/code"), nil, req)
		if err != nil {
			yield(api.CodeEvent{}, err)
			return
		}
		defer resp.Body.Close()
		for from := json.NewDecoder(resp.Body); ; {
			var e api.CodeEvent
			err := from.Decode(&e)
			switch {
			case err == io.EOF:
				return
			case err != nil && ctx.Err() != nil:
				err = ctx.Err()
			case err != nil:
				err = api.Errorf(api.KindUnavailable, "the events of the code ended early: %w", err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// CodeContexts lists the contexts of the code interpreter.
func (s *Sandbox) CodeContexts(ctx context.Context) (out []api.CodeContext, err error) {
	return out, s.client.call(ctx, "GET", s.path("/code/contexts"), nil, &out)
}

// CreateCodeContext makes a context.
func (s *Sandbox) CreateCodeContext(ctx context.Context, req api.CreateCodeContext) (out api.CodeContext, err error) {
	return out, s.client.call(ctx, "POST", s.path("/code/contexts"), req, &out)
}

// DeleteCodeContext ends a context.
func (s *Sandbox) DeleteCodeContext(ctx context.Context, id string) error {
	return s.client.call(ctx, "DELETE", s.path("/code/contexts/"+url.PathEscape(id)), nil, nil)
}

// RestartCodeContext ends the process of a context; the next code starts a new one.
func (s *Sandbox) RestartCodeContext(ctx context.Context, id string) error {
	return s.client.call(ctx, "POST", s.path("/code/contexts/"+url.PathEscape(id)+"/restart"), nil, nil)
}

// InterruptCode interrupts the code that runs in a context.
func (s *Sandbox) InterruptCode(ctx context.Context, id string) error {
	return s.client.call(ctx, "POST", s.path("/code/contexts/"+url.PathEscape(id)+"/interrupt"), nil, nil)
}
