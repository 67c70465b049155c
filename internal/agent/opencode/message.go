package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
)

// Bounds of the texts of an update, in bytes.
const (
	maxTitle  = 1 << 10
	maxInput  = 64 << 10
	maxOutput = 256 << 10
)

// info is what a message is.
type info struct {
	ID        string
	SessionID string
	Role      string
	Time      struct{ Completed float64 }
	Error     *failure
	Finish    string
	Tokens    tokens
}

// tokens are what a message used.
type tokens struct {
	Input, Output, Reasoning float64
	Cache                    struct{ Read, Write float64 }
}

// usage is what they are in numbers that can be added; zero for those that cannot.
func (t tokens) usage() acp.Usage {
	n := func(f float64) int64 {
		if !(f >= 0 && f <= 1<<40) { // also false for what is no number
			return 0
		}
		return int64(f)
	}
	return acp.Usage{Input: n(t.Input), Output: n(t.Output) + n(t.Reasoning), CachedRead: n(t.Cache.Read), CachedWrite: n(t.Cache.Write)}
}

// part is a piece of a message.
type part struct {
	ID, SessionID, MessageID string
	Type                     string
	Text                     string
	Synthetic                bool
	Time                     struct{ End float64 }
	Tool                     string
	State                    struct {
		Status        acp.CallStatus
		Input         json.RawMessage
		Output, Error string
		Title         string
	}
}

// The words of the server that are read; the states of a call are those that differ from package acp.
const (
	assistant = "assistant"
	aborted   = "MessageAbortedError"
	textPart  = "text"
	toolPart  = "tool"
	errored   = "error"
	running   = "running"
)

// kinds are the kinds of tools in the words of the Agent Client Protocol.
var kinds = map[string]string{
	"bash": "execute", "edit": "edit", "write": "edit", "apply_patch": "edit", "read": "read", "list": "read",
	"glob": "search", "grep": "search", "websearch": "search", "webfetch": "fetch",
}

// call is what a tool part says of its call.
func (p part) call() acp.Call {
	kind := kinds[p.Tool]
	if kind == "" {
		kind = clip(p.Tool, maxID)
	}
	c := acp.Call{ID: p.ID, Title: clip(p.State.Title, maxTitle), Kind: kind, Input: clip(compact(p.State.Input), maxInput)}
	if c.Title == "" {
		c.Title = clip(p.Tool, maxID)
	}
	switch p.State.Status {
	case acp.Completed:
		c.Status, c.Output = acp.Completed, clip(p.State.Output, maxOutput)
	case errored:
		c.Status, c.Output = acp.Failed, clip(p.State.Error, maxOutput)
	default:
		c.Status = acp.Running
	}
	return c
}

// compact is JSON in one line; empty for nothing.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil || b.String() == "null" {
		return ""
	}
	return b.String()
}

// message is a message with its parts.
type message struct {
	Info  info
	Parts []part
}

// page reads messages of a session, the oldest first: the newest ones, or those before a page.
func (c *Client) page(ctx context.Context, session string, most int, cursor string) (list []message, before string, err error) {
	path := "/session/" + url.PathEscape(session) + "/message?limit=" + strconv.Itoa(most)
	if cursor != "" {
		path += "&before=" + url.QueryEscape(cursor)
	}
	if err := c.call(ctx, http.MethodGet, path, nil, &list, &before); err != nil {
		return nil, "", err
	}
	if len(list) > most {
		return nil, "", api.Errorf(api.KindInvalid, "the server answered with %d messages instead of %d", len(list), most)
	}
	for _, m := range list {
		if !validID(m.Info.ID) {
			return nil, "", api.Errorf(api.KindInvalid, "the server named a message %.80q", m.Info.ID)
		}
	}
	return list, before, nil
}

// busy reports whether a session works.
func (c *Client) busy(ctx context.Context, session string) (bool, error) {
	var all map[string]struct{ Type string }
	err := c.call(ctx, http.MethodGet, "/session/status", nil, &all, nil)
	is, ok := all[session]
	return ok && is.Type != "idle", err
}

// abort ends what a session does.
func (c *Client) abort(ctx context.Context, session string) error {
	return c.call(ctx, http.MethodPost, "/session/"+url.PathEscape(session)+"/abort", nil, nil, nil)
}

// allow answers a request for a permission; reject ends a question without an answer.
func (c *Client) allow(ctx context.Context, id string) error {
	if !validID(id) {
		return nil // it is none of the server's
	}
	return c.call(ctx, http.MethodPost, "/permission/"+url.PathEscape(id)+"/reply", obj{"reply": "once"}, nil, nil)
}

func (c *Client) reject(ctx context.Context, id string) error {
	if !validID(id) {
		return nil
	}
	return c.call(ctx, http.MethodPost, "/question/"+url.PathEscape(id)+"/reject", nil, nil, nil)
}

// asked answers what the server asks, as far as nobody has answered it.
func (c *Client) asked(ctx context.Context) error {
	for _, q := range []struct {
		path   string
		answer func(context.Context, string) error
	}{{"/permission", c.allow}, {"/question", c.reject}} {
		var all []struct{ ID string }
		if err := c.call(ctx, http.MethodGet, q.path, nil, &all, nil); err != nil {
			return err
		}
		for _, one := range all[:min(len(all), maxAsked)] {
			if err := answered(q.answer(ctx, one.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxAsked is how many questions are answered at once.
const maxAsked = 20

// answered is the error of an answer, nil if the question was answered before.
func answered(err error) error {
	switch api.KindOf(err) {
	case api.KindNotFound, api.KindInvalid:
		return nil
	}
	return err
}
