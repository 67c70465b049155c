package opencode

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
)

// Bounds of a turn.
const (
	// maxMessages and maxParts are how many messages and parts are distinguished.
	maxMessages = 10_000
	maxParts    = 50_000
	// pageSize is how many messages are read at once, and maxPages how many pages.
	pageSize = 5
	maxPages = 1000
	// maxIdle is how often the server may be found idle although it has not answered.
	maxIdle = 5
	// endPoll is how often the end of a turn that was aborted is looked for.
	endPoll = 50 * time.Millisecond
)

// turn is a message and the work on it.
type turn struct {
	c       *Client
	session string
	// before is the last message of what was said before; empty for none.
	before string
	// known are the messages of the agent.
	known map[string]*known
	// parts are those that were reported: true if completely.
	parts map[string]bool
	usage acp.Usage
	// failure is the error of the session that came as an event.
	failure *failure
	// gap is true while events may be missing.
	gap bool
	// idle counts how often the session was found idle without an answer.
	idle int
	last info // the newest message that was read
}

// known is what is known of a message of the agent.
type known struct {
	// done is true when nothing more comes of it.
	done bool
	used acp.Usage
}

// Prompt says text to the agent and waits for the end of its turn. If ctx ends first, the turn is aborted, and the error is
// that of ctx; the turn then has what it used until then.
func (c *Client) Prompt(ctx context.Context, session, text string) (acp.Turn, error) {
	t := &turn{c: c, session: session, known: map[string]*known{}, parts: map[string]bool{}}
	stop, err := t.run(ctx, text)
	if ctx.Err() != nil {
		t.end(ctx)
		return t.turn(""), ctx.Err()
	}
	return t.turn(stop), err
}

// turn is the turn for the caller.
func (t *turn) turn(stop acp.StopReason) acp.Turn {
	u := t.usage
	return acp.Turn{Stop: stop, Usage: &u}
}

// run says the message and follows the work on it.
func (t *turn) run(ctx context.Context, text string) (acp.StopReason, error) {
	if err := t.quiet(ctx); err != nil {
		return "", err
	}
	list, _, err := t.c.page(ctx, t.session, 1, "")
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		t.before = list[0].Info.ID
	}
	f := t.c.follow(ctx)
	defer f.close()
	// The events are there before the message is.
	if err := t.hear(ctx, f); err != nil {
		return "", err
	}
	if err := t.say(ctx, text); err != nil {
		return "", err
	}
	return t.follow(ctx, f)
}

// quiet ends what the session still does for an earlier client.
func (t *turn) quiet(ctx context.Context) error {
	busy, err := t.c.busy(ctx, t.session)
	if err != nil || !busy {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, t.c.cfg.Grace)
	defer cancel()
	if err := t.c.abort(limited, t.session); err != nil {
		return err
	}
	if err := t.wait(limited); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindConflict, "the session works on something else, and the server does not end it within %s", t.c.cfg.Grace)
	}
	return nil
}

// wait waits until the session is idle.
func (t *turn) wait(ctx context.Context) error {
	for {
		busy, err := t.c.busy(ctx, t.session)
		if err != nil || !busy {
			return err
		}
		select {
		case <-time.After(endPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hear waits for the beginning of the events.
func (t *turn) hear(ctx context.Context, f *feed) error {
	late := time.NewTimer(requestTime)
	defer late.Stop()
	for {
		select {
		case n := <-f.news:
			if n.err != nil || n.event.Type == connected {
				return n.err
			}
		case <-late.C:
			return api.Errorf(api.KindTimeout, "the server did not begin to send events within %s", requestTime)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// say gives the message to the server. If the answer to that is lost, the messages of the session say whether it was taken: it
// is not said twice.
func (t *turn) say(ctx context.Context, text string) error {
	in := obj{"parts": []obj{{"type": "text", "text": text}}}
	err := t.c.call(ctx, http.MethodPost, "/session/"+url.PathEscape(t.session)+"/prompt_async", in, nil, nil)
	if kind := api.KindOf(err); err == nil || kind != api.KindUnavailable && kind != api.KindTimeout {
		return err
	}
	list, _, perr := t.c.page(ctx, t.session, pageSize, "")
	if perr != nil {
		return err
	}
	if fresh := t.fresh(list); len(fresh) == 0 {
		return err
	}
	return nil
}

// fresh are the messages of the turn in a page.
func (t *turn) fresh(list []message) []message {
	return slices.DeleteFunc(slices.Clone(list), func(m message) bool { return m.Info.ID <= t.before })
}

// follow reports what happens until the turn ends.
func (t *turn) follow(ctx context.Context, f *feed) (acp.StopReason, error) {
	poll := time.NewTicker(t.c.cfg.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		var look, polled bool
		var err error
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case n := <-f.news:
			if n.err != nil {
				return "", n.err
			}
			look, err = t.take(ctx, n.event)
		case <-poll.C:
			polled = true
			look, err = true, t.c.asked(ctx)
		}
		if err == nil && look {
			var over bool
			if over, err = t.look(ctx); err == nil && over {
				return t.stop()
			}
			if polled && err == nil {
				t.idle++
			}
		}
		// What a lost connection has in the middle of is asked for again; the feed says when the server has ended.
		if kind := api.KindOf(err); err != nil && kind != api.KindUnavailable && kind != api.KindTimeout {
			return "", err
		}
	}
	return "", ctx.Err()
}

// take takes an event. look is true if the state of the session is to be asked for.
func (t *turn) take(ctx context.Context, e event) (look bool, err error) {
	p := e.Properties
	switch e.Type {
	case connected: // again: what came meanwhile is in the messages
		t.gap = true
		return true, nil
	case permission:
		return false, answered(t.c.allow(ctx, p.ID))
	case question:
		return false, answered(t.c.reject(ctx, p.ID))
	}
	if p.SessionID != t.session {
		return false, nil // of a session of a sub-agent, or of nobody
	}
	switch e.Type {
	case messageNow:
		if p.Info != nil && validID(p.Info.ID) {
			return false, t.message(*p.Info)
		}
	case partNow:
		if p.Part != nil {
			return false, t.part(*p.Part, false)
		}
	case failed:
		// If the turn is aborted, its last message says so; this may be the end of an earlier one.
		if p.Error != nil && p.Error.Name != aborted {
			t.failure = p.Error
		}
	case statusNow:
		return p.Status.Type == "idle", nil
	case idle:
		return true, nil
	}
	return false, nil
}

// message takes what a message is. Names of messages are in the order of the messages.
func (t *turn) message(in info) error {
	k := t.known[in.ID]
	if k == nil {
		if in.Role != assistant || in.ID <= t.before {
			return nil
		}
		if len(t.known) >= maxMessages {
			return api.Errorf(api.KindExhausted, "the turn has more than %d messages", maxMessages)
		}
		k = &known{}
		t.known[in.ID] = k
	}
	k.done = k.done || in.Time.Completed > 0
	// A later report of the same message replaces the earlier one.
	now := in.Tokens.usage()
	t.usage = acp.Usage{Input: t.usage.Input + now.Input - k.used.Input, Output: t.usage.Output + now.Output - k.used.Output,
		CachedRead: t.usage.CachedRead + now.CachedRead - k.used.CachedRead, CachedWrite: t.usage.CachedWrite + now.CachedWrite - k.used.CachedWrite}
	k.used = now
	return nil
}

// part reports a piece of a message of the agent. last is true if nothing more comes of it.
func (t *turn) part(p part, last bool) error {
	complete, seen := t.parts[p.ID]
	if t.known[p.MessageID] == nil || complete || !validID(p.ID) {
		return nil
	}
	if !seen && len(t.parts) >= maxParts {
		return api.Errorf(api.KindExhausted, "the turn has more than %d parts of messages", maxParts)
	}
	switch p.Type {
	case textPart:
		if p.Time.End <= 0 && !last {
			return nil
		}
		t.parts[p.ID] = true
		if p.Text != "" && !p.Synthetic {
			t.c.cfg.Update(acp.Update{Session: t.session, Kind: acp.Said, Text: clip(p.Text, maxOutput)})
		}
	case toolPart:
		switch p.State.Status {
		case acp.Completed, errored:
			t.parts[p.ID] = true
		case running:
			if seen {
				return nil // it only prints more
			}
			t.parts[p.ID] = false
		default:
			return nil // its input is not complete
		}
		kind := acp.CallBegun
		if seen {
			kind = acp.CallChanged
		}
		t.c.cfg.Update(acp.Update{Session: t.session, Kind: kind, Call: p.call()})
	}
	return nil
}
