package opencode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"hortus.dev/api"
)

// maxNoise is how many events of one connection may be no events of the server.
const maxNoise = 1000

// eventReader reads server-sent events.
type eventReader struct {
	r *bufio.Reader
	// line is called for each line.
	line func()
}

// next returns the data of the next event. An error that is not of the stream is KindExhausted. What the stream ends in the
// middle of is no event.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	size, some := 0, false
	for {
		line, err := e.readLine(MaxEvent - size)
		if err != nil {
			return nil, err
		}
		size += len(line) + 1
		if e.line != nil {
			e.line()
		}
		switch {
		case len(line) == 0:
			if some {
				return data, nil
			}
			size = 0
		case bytes.HasPrefix(line, []byte("data:")):
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, bytes.TrimPrefix(line[len("data:"):], []byte(" "))...), true
		}
	}
}

// readLine returns the next line without its end.
func (e *eventReader) readLine(most int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, api.Errorf(api.KindExhausted, "the server sent an event of more than %d bytes", MaxEvent)
		}
		line = append(line, part...)
		if err == nil {
			return bytes.TrimRight(line, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// event is a report of the server, as far as it is read.
type event struct {
	Type       string
	Properties struct {
		// ID is that of a question.
		ID        string
		SessionID string
		Info      *info
		Part      *part
		Status    struct{ Type string }
		Error     *failure
	}
}

// The types of events that are read.
const (
	connected  = "server.connected"
	partNow    = "message.part.updated"
	messageNow = "message.updated"
	statusNow  = "session.status"
	idle       = "session.idle"
	failed     = "session.error"
	permission = "permission.asked"
	question   = "question.asked"
)

// parseEvent reads the data of an event. It is false for what is none.
func parseEvent(data []byte) (event, bool) {
	var kind struct{ Type string }
	if json.Unmarshal(data, &kind) != nil || kind.Type == "" {
		return event{}, false
	}
	switch kind.Type {
	case connected, partNow, messageNow, statusNow, idle, failed, permission, question:
	default:
		return event{Type: clip(kind.Type, maxID)}, true
	}
	var e event
	err := json.Unmarshal(data, &e)
	return e, err == nil
}

// news is what a feed gives: an event, or why there are no more.
type news struct {
	event event
	err   error
}

// feed reads the events of the server, over one connection after the other.
type feed struct {
	c    *Client
	news chan news
	stop context.CancelFunc
	work sync.WaitGroup
}

// Bounds of a feed.
const (
	// maxFeeds is how many connections a turn may use.
	maxFeeds = 1000
	// maxGone is how often in a row the server may not be there.
	maxGone  = 3
	firstGap = 100 * time.Millisecond
	lastGap  = 5 * time.Second
)

// follow starts a feed.
func (c *Client) follow(ctx context.Context) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{c: c, news: make(chan news), stop: stop}
	f.work.Go(func() { f.run(ctx) })
	return f
}

// close ends the feed.
func (f *feed) close() {
	f.stop()
	f.work.Wait()
}

// run reads events until the feed ends or the server is left.
func (f *feed) run(ctx context.Context) {
	gap, gone, last := firstGap, 0, time.Now()
	for range maxFeeds {
		heard, err := f.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			gap, gone, last = firstGap, 0, time.Now()
		}
		if f.c.gone(err) {
			gone++
		} else {
			gone = 0
		}
		switch kind := api.KindOf(err); {
		case kind == api.KindExhausted, kind == api.KindUnauthenticated, kind == api.KindInvalid:
			f.give(ctx, news{err: err})
			return
		case gone >= maxGone:
			f.give(ctx, news{err: api.Errorf(api.KindUnavailable, "the server has ended: %w", err)})
			return
		case time.Since(last) > f.c.cfg.Lost:
			f.give(ctx, news{err: api.Errorf(api.KindUnavailable, "no connection with the server for %s: %w", f.c.cfg.Lost, err)})
			return
		}
		select {
		case <-time.After(gap):
			gap = min(2*gap, lastGap)
		case <-ctx.Done():
			return
		}
	}
	f.give(ctx, news{err: api.Errorf(api.KindExhausted, "the server ended the events %d times in one turn", maxFeeds)})
}

// give passes on what is new. It is false when the feed has ended.
func (f *feed) give(ctx context.Context, n news) bool {
	select {
	case f.news <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the events of one connection. heard is true if it began as it should.
func (f *feed) read(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(f.c.cfg.Silence, func() { cancel(errSilent) })
	defer silent.Stop()
	defer func() {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = api.Errorf(api.KindTimeout, "the events of the server were silent for %s", f.c.cfg.Silence)
		}
	}()
	resp, err := f.c.send(ctx, http.MethodGet, "/event", nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	r := &eventReader{r: bufio.NewReaderSize(resp.Body, 64<<10), line: func() { silent.Reset(f.c.cfg.Silence) }}
	for noise := 0; ; {
		data, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return heard, api.Errorf(api.KindUnavailable, "the server ended the events")
		case err != nil && api.KindOf(err) == api.KindExhausted:
			return heard, err
		case err != nil:
			return heard, f.c.broken(ctx, http.MethodGet, "/event", err)
		}
		e, ok := parseEvent(data)
		if !ok {
			if noise++; noise > maxNoise {
				return heard, api.Errorf(api.KindInvalid, "the server sent more than %d events that its API does not have", maxNoise)
			}
			continue
		}
		heard = heard || e.Type == connected
		silent.Stop() // the turn may be busy with the event
		if !f.give(ctx, news{event: e}) {
			return heard, ctx.Err()
		}
		silent.Reset(f.c.cfg.Silence)
	}
}

var errSilent = errors.New("the events of the server are silent")
