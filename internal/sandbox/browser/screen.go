package browser

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"hortus.dev/api"
)

// lookEvery is how often a watcher looks which tab was used last, and what it is called.
const lookEvery = 2 * time.Second

// The pictures of a tab: small enough to follow over a slow connection.
var screencast = map[string]any{"format": "jpeg", "quality": 60, "maxWidth": 1280, "maxHeight": 1280}

// Watch calls f with the pictures of the tab that was used last, until ctx ends or f fails. A picture is asked for after f
// returned for the one before.
func (b *Browsers) Watch(ctx context.Context, id api.SandboxID, f func(api.BrowserFrame) error) error {
	for {
		t, err := b.shown(ctx, id)
		if err != nil {
			return err
		}
		if err := b.watchTab(ctx, id, t, f); err != nil {
			return err
		}
	}
}

// errOther ends the watch of a tab because another is shown, or it is called something else.
var errOther = errors.New("another tab is shown")

// watchTab shows one tab until another is shown.
func (b *Browsers) watchTab(ctx context.Context, id api.SandboxID, t tab, f func(api.BrowserFrame) error) error {
	s, err := b.connect(ctx, id, t.ID)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.send(ctx, "Page.startScreencast", screencast); err != nil {
		return missing(id, err)
	}
	reading, cancel := context.WithCancelCause(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-reading.Done():
				return
			case <-tick.C:
			}
			if now, err := b.shown(reading, id); err != nil || now != t {
				cancel(errOther)
				return
			}
		}
	}()
	defer func() { cancel(nil); <-looked }()
	for {
		m, err := s.read(reading)
		if errors.Is(context.Cause(reading), errOther) {
			return nil
		}
		if err != nil {
			return missing(id, err)
		}
		if m.Method != "Page.screencastFrame" {
			continue
		}
		var p struct {
			Data     []byte `json:"data"`
			Metadata struct {
				Width  float64 `json:"deviceWidth"`
				Height float64 `json:"deviceHeight"`
			} `json:"metadata"`
			Session int64 `json:"sessionId"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			return missing(id, err)
		}
		if err := f(api.BrowserFrame{Target: t.ID, Title: t.Title, URL: t.URL, Image: p.Data, Width: p.Metadata.Width, Height: p.Metadata.Height}); err != nil {
			return err
		}
		if _, err := s.send(ctx, "Page.screencastFrameAck", map[string]any{"sessionId": p.Session}); err != nil {
			return missing(id, err)
		}
	}
}
