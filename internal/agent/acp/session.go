package acp

import (
	"context"
	"encoding/json"
	"time"

	"hortus.dev/api"
)

// version is the version of the protocol.
const version = 1

// Agent is what an agent says of itself.
type Agent struct {
	// Name and Version may be empty.
	Name, Version string
	// Load is true if sessions can be loaded, with a replay of what was said; Resume if they can be continued without one.
	Load, Resume bool
}

// Session is a conversation.
type Session struct {
	ID string
	// Mode is the current mode, and Modes are those that can be set; empty if the agent has none.
	Mode  string
	Modes []string
}

// StopReason is why a turn ended.
type StopReason string

// The reasons of the protocol.
const (
	EndTurn     StopReason = "end_turn"
	MaxTokens   StopReason = "max_tokens"
	MaxRequests StopReason = "max_turn_requests"
	Refusal     StopReason = "refusal"
	Canceled    StopReason = "cancelled"
)

// Turn is how a turn ended.
type Turn struct {
	Stop StopReason
	// Usage is what the turn used, if the agent reports it.
	Usage *Usage
}

// Usage is a number of tokens. Input does not have those that were read from or written to a cache.
type Usage struct {
	Input       int64 `json:"inputTokens"`
	Output      int64 `json:"outputTokens"`
	CachedRead  int64 `json:"cachedReadTokens"`
	CachedWrite int64 `json:"cachedWriteTokens"`
}

// valid reports whether the numbers can be added to others.
func (u Usage) valid() bool {
	const most = 1 << 50
	for _, n := range []int64{u.Input, u.Output, u.CachedRead, u.CachedWrite} {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// quota reads what gemini reports in the _meta of a turn; nil if there is nothing.
func quota(meta json.RawMessage) *Usage {
	var in struct {
		Quota struct {
			Tokens *struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
		} `json:"quota"`
	}
	if json.Unmarshal(meta, &in) != nil || in.Quota.Tokens == nil {
		return nil
	}
	return &Usage{Input: in.Quota.Tokens.Input, Output: in.Quota.Tokens.Output}
}

// Initialize agrees on the version of the protocol. It is the first call.
func (c *Client) Initialize(ctx context.Context) (Agent, error) {
	var out struct {
		ProtocolVersion   int `json:"protocolVersion"`
		AgentCapabilities struct {
			LoadSession         bool `json:"loadSession"`
			SessionCapabilities struct {
				Resume *struct{} `json:"resume"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
		AgentInfo struct{ Name, Version string } `json:"agentInfo"`
	}
	err := c.call(ctx, "initialize", obj{
		"protocolVersion":    version,
		"clientCapabilities": obj{"fs": obj{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         obj{"name": c.cfg.Name, "version": c.cfg.Version},
	}, &out)
	if err == nil && out.ProtocolVersion != version {
		err = api.Errorf(api.KindUnsupported, "the agent speaks version %d of the Agent Client Protocol, not %d", out.ProtocolVersion, version)
	}
	caps := out.AgentCapabilities
	return Agent{Name: clip(out.AgentInfo.Name, maxLabel), Version: clip(out.AgentInfo.Version, maxLabel), Load: caps.LoadSession, Resume: caps.SessionCapabilities.Resume != nil}, err
}

type obj map[string]any

// maxSessionID is the longest name of a session, in bytes.
const maxSessionID = 1 << 10

// sessionAnswer is the answer to session/new, session/load and session/resume.
type sessionAnswer struct {
	SessionID string `json:"sessionId"`
	Modes     struct {
		CurrentModeID  string `json:"currentModeId"`
		AvailableModes []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
}

func (o sessionAnswer) session() (Session, error) {
	s := Session{ID: o.SessionID, Mode: clip(o.Modes.CurrentModeID, maxLabel)}
	if s.ID == "" || len(s.ID) > maxSessionID {
		return s, api.Errorf(api.KindInvalid, "the agent named a session with %d bytes; 1 to %d are allowed", len(s.ID), maxSessionID)
	}
	for _, m := range o.Modes.AvailableModes {
		if len(s.Modes) < 100 && len(m.ID) <= maxLabel {
			s.Modes = append(s.Modes, m.ID)
		}
	}
	return s, nil
}

// NewSession begins a conversation about a directory.
func (c *Client) NewSession(ctx context.Context, dir string) (Session, error) {
	var out sessionAnswer
	if err := c.call(ctx, "session/new", c.meta(obj{"cwd": dir, "mcpServers": []any{}}), &out); err != nil {
		return Session{}, err
	}
	return out.session()
}

// meta adds the _meta of the configuration to parameters.
func (c *Client) meta(params obj) obj {
	if c.cfg.Meta != nil {
		params["_meta"] = c.cfg.Meta
	}
	return params
}

// LoadSession continues a conversation of an earlier process. The agent replays what was said as updates, which come
// before it returns.
func (c *Client) LoadSession(ctx context.Context, id, dir string) (Session, error) {
	s, err := c.again(ctx, "session/load", id, dir)
	if err == nil {
		c.awaitQuiet(ctx)
	}
	return s, err
}

// awaitQuiet waits until the agent has reported nothing for a while.
func (c *Client) awaitQuiet(ctx context.Context) {
	for began := time.Now(); time.Since(began) < maxReplay; {
		before := c.heard.Load()
		quiet := time.NewTimer(c.cfg.Quiet)
		select {
		case <-quiet.C:
		case <-ctx.Done():
		case <-c.gone:
		}
		quiet.Stop()
		if c.heard.Load() == before || ctx.Err() != nil || c.Err() != nil {
			return
		}
	}
}

// ResumeSession is LoadSession without a replay.
func (c *Client) ResumeSession(ctx context.Context, id, dir string) (Session, error) {
	return c.again(ctx, "session/resume", id, dir)
}

func (c *Client) again(ctx context.Context, method, id, dir string) (Session, error) {
	var out sessionAnswer
	if err := c.call(ctx, method, c.meta(obj{"sessionId": id, "cwd": dir, "mcpServers": []any{}}), &out); err != nil {
		return Session{}, err
	}
	out.SessionID = id
	return out.session()
}

// SetMode sets the mode of a session.
func (c *Client) SetMode(ctx context.Context, session, mode string) error {
	return c.call(ctx, "session/set_mode", obj{"sessionId": session, "modeId": mode}, nil)
}

// Prompt says text to the agent and waits for the end of its turn. If ctx ends first, the turn is canceled, and the error
// is that of ctx; the turn is then how the agent ended it, or empty if it did not in time.
func (c *Client) Prompt(ctx context.Context, session, text string) (Turn, error) {
	const method = "session/prompt"
	var out struct {
		StopReason StopReason      `json:"stopReason"`
		Usage      *Usage          `json:"usage"`
		Meta       json.RawMessage `json:"_meta"`
	}
	turn := func(err error) (Turn, error) {
		t := Turn{Stop: StopReason(clip(string(out.StopReason), maxLabel))}
		if out.Usage == nil {
			out.Usage = quota(out.Meta)
		}
		if out.Usage != nil && out.Usage.valid() {
			t.Usage = out.Usage
		}
		return t, err
	}
	to, forget, err := c.begin(method, obj{"sessionId": session, "prompt": []any{obj{"type": "text", "text": text}}})
	if err != nil {
		return Turn{}, err
	}
	defer forget()
	select {
	case a := <-to:
		return turn(a.into(method, &out))
	case <-c.gone:
		return turn(c.last(to, method, &out))
	case <-ctx.Done():
	}
	if err := c.send(message{Version: "2.0", Method: "session/cancel", Params: encode(obj{"sessionId": session})}); err != nil {
		return Turn{}, ctx.Err()
	}
	late := time.NewTimer(c.cfg.Grace)
	defer late.Stop()
	select {
	case a := <-to:
		_ = a.into(method, &out) // ctx says why it ended
	case <-c.gone:
	case <-late.C:
	}
	return turn(ctx.Err())
}
