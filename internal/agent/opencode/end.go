package opencode

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
)

// look asks for the state of the session, and for its messages. over is true if the turn has ended.
func (t *turn) look(ctx context.Context) (over bool, err error) {
	busy, err := t.c.busy(ctx, t.session)
	if err != nil {
		return false, err
	}
	if busy {
		t.idle = -1 // it works
	}
	if busy && !t.gap {
		return false, nil
	}
	if err := t.reread(ctx); err != nil || busy {
		return false, err
	}
	if t.last.Role == assistant && (t.last.Time.Completed > 0 || t.last.Error != nil) || t.failure != nil {
		return true, nil
	}
	// The message may be about to be worked on, and what made the client look may be the end of something earlier.
	if t.idle > maxIdle {
		return false, api.Errorf(api.KindInternal, "the server took the message and does nothing")
	}
	return false, nil
}

// maxKept bounds what is kept of messages that are about to be reported, in bytes.
const maxKept = 64 << 20

// reread reports what the messages of the turn have and the events did not.
func (t *turn) reread(ctx context.Context) error {
	var all []message
	cursor, kept := "", 0
	for range maxPages {
		list, next, err := t.c.page(ctx, t.session, pageSize, cursor)
		if err != nil {
			return err
		}
		fresh := t.fresh(list)
		complete := !t.gap && slices.ContainsFunc(fresh, func(m message) bool { k := t.known[m.Info.ID]; return k != nil && k.done })
		if kept += t.slim(fresh); kept > maxKept {
			return api.Errorf(api.KindExhausted, "the turn has more than %d bytes that were not reported", maxKept)
		}
		all = append(fresh, all...)
		if len(fresh) < len(list) || complete || next == "" || len(list) == 0 {
			return t.report(all)
		}
		cursor = next
	}
	return api.Errorf(api.KindExhausted, "the turn has more than %d messages that were not reported", maxPages*pageSize)
}

// slim drops the parts of messages that are not reported, and returns how much the others have, in bytes.
func (t *turn) slim(list []message) (size int) {
	for i := range list {
		m := &list[i]
		m.Parts = slices.DeleteFunc(m.Parts, func(p part) bool {
			return t.parts[p.ID] || p.MessageID != m.Info.ID || p.Type != textPart && p.Type != toolPart
		})
		m.Parts = slices.Clone(m.Parts)
		for _, p := range m.Parts {
			size += partSize + len(p.Text) + len(p.State.Input) + len(p.State.Output) + len(p.State.Error)
		}
	}
	return size
}

// partSize is about what a part has beside its texts, in bytes.
const partSize = 512

// report reports messages, the oldest first.
func (t *turn) report(all []message) error {
	for _, m := range all {
		if err := t.message(m.Info); err != nil {
			return err
		}
		for _, p := range m.Parts {
			if err := t.part(p, m.Info.Time.Completed > 0 || m.Info.Error != nil); err != nil {
				return err
			}
		}
	}
	if len(all) > 0 {
		t.last = all[len(all)-1].Info
	}
	t.gap = false
	return nil
}

// stop says why the turn ended.
func (t *turn) stop() (acp.StopReason, error) {
	f := t.last.Error
	if f == nil && (t.last.Role != assistant || t.last.Time.Completed <= 0) {
		f = t.failure
	}
	if f == nil {
		switch t.last.Finish {
		case "stop", "tool-calls", "other", "unknown":
			return acp.EndTurn, nil
		case "length":
			return acp.MaxTokens, nil
		case "content-filter":
			return acp.Refusal, nil
		}
		return acp.StopReason(clip(t.last.Finish, maxID)), nil
	}
	switch f.Name {
	case "ContentFilterError":
		return acp.Refusal, nil
	case "MessageOutputLengthError":
		return acp.MaxTokens, nil
	case aborted:
		return "", api.Errorf(api.KindConflict, "the turn was aborted by something else in the sandbox")
	case "ProviderAuthError":
		return "", api.Errorf(api.KindUnauthenticated, "the agent cannot use its model: %s", f.text())
	}
	return "", api.Errorf(api.KindUnavailable, "the turn failed: %s", f.text())
}

// end aborts a turn whose context has ended, waits for its end, and counts what it used.
func (t *turn) end(ctx context.Context) {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.c.cfg.Grace)
	defer cancel()
	// The error of the caller is that of ctx, and the sandbox ends with the turn.
	if t.c.abort(grace, t.session) != nil || t.wait(grace) != nil {
		return
	}
	list, _, err := t.c.page(grace, t.session, pageSize, "")
	if err != nil {
		return
	}
	for _, m := range t.fresh(list) {
		if t.message(m.Info) != nil {
			return
		}
	}
}
