package guest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxWatchers bounds the watchers that are polled.
	maxWatchers = 64
	// maxQueued bounds the changes that a polled watcher keeps.
	maxQueued = 10_000
)

// watchDir serves WatchDir: a start event, then changes until the client leaves.
func (s *Server) watchDir(c *conn, req *http.Request) error {
	var in envd.WatchRequest
	codec, ok, err := c.streamRequest(req, &in)
	if !ok {
		return err
	}
	opt, err := startOptionsOf(c, req)
	if err != nil {
		return c.failStream(codec, err)
	}
	id, err := s.identityOf(req)
	if err != nil {
		return c.failStream(codec, err)
	}
	w, err := s.newWatch(id, &in)
	if err != nil {
		return c.failStream(codec, err)
	}
	defer w.f.Close()
	gone, stop := c.watchHangup()
	ended := make(chan struct{})
	var helper sync.WaitGroup
	helper.Go(func() {
		select {
		case <-gone:
			w.f.Close() // ends the wait below
		case <-c.ended:
			w.f.Close()
		case <-ended:
		}
	})
	defer helper.Wait()
	defer stop()
	defer close(ended)
	c.out.begin(c, codec)
	c.out.message(&envd.WatchDirResponse{Start: &envd.Empty{}})
	for {
		if err := c.out.flush(); err != nil {
			return err
		}
		until := opt.due
		if opt.keepalive > 0 {
			if next := time.Now().Add(opt.keepalive); until.IsZero() || next.Before(until) {
				until = next
			}
		}
		w.f.SetReadDeadline(until)
		events, err := w.next()
		for _, e := range events {
			c.out.message(&envd.WatchDirResponse{Filesystem: e})
		}
		switch {
		case opt.late():
			return c.out.finish(envd.FromAPI(errFollowed))
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.out.message(&envd.WatchDirResponse{Keepalive: &envd.Empty{}})
		case errors.Is(err, os.ErrClosed):
			return errGone
		default:
			return c.out.finish(envd.FromAPI(fileError(w.root, err)))
		}
	}
}

// watchers are those that are polled.
type watchers struct {
	mu   sync.Mutex
	byID map[string]*watcher
}

// watcher keeps the changes of a watch until they are fetched.
type watcher struct {
	w *watch

	mu     sync.Mutex
	events []*envd.FilesystemEvent
	err    error // why no more will come
}

func (s *Server) createWatcher(_ *conn, req *http.Request, in *envd.WatchRequest) (*envd.WatcherID, error) {
	id, err := s.identityOf(req)
	if err != nil {
		return nil, err
	}
	w, err := s.newWatch(id, in)
	if err != nil {
		return nil, err
	}
	var raw [16]byte
	rand.Read(raw[:])
	key := hex.EncodeToString(raw[:])
	wr := &watcher{w: w}
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	if len(s.watchers.byID) >= maxWatchers {
		w.f.Close()
		return nil, api.Errorf(api.KindExhausted, "%d watchers are open already", maxWatchers)
	}
	s.watchers.byID[key] = wr
	s.wg.Go(wr.run)
	return &envd.WatcherID{WatcherID: key}, nil
}

// run gathers changes until the watch is closed or fails.
func (wr *watcher) run() {
	for {
		events, err := wr.w.next()
		wr.mu.Lock()
		wr.events = append(wr.events, events...)
		if len(wr.events) > maxQueued {
			wr.events, err = nil, api.Errorf(api.KindExhausted, "watch '%s': more than %d changes were not fetched; they are lost", wr.w.root, maxQueued)
		}
		wr.err = err
		wr.mu.Unlock()
		if err != nil {
			wr.w.f.Close()
			return
		}
	}
}

func (s *Server) watcher(key string, remove bool) (*watcher, error) {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	wr := s.watchers.byID[key]
	if wr == nil {
		return nil, api.Errorf(api.KindNotFound, "there is no watcher %q", key)
	}
	if remove {
		delete(s.watchers.byID, key)
	}
	return wr, nil
}

func (s *Server) watcherEvents(_ *conn, _ *http.Request, in *envd.WatcherID) (*envd.WatcherEvents, error) {
	wr, err := s.watcher(in.WatcherID, false)
	if err != nil {
		return nil, err
	}
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if len(wr.events) == 0 && wr.err != nil {
		return nil, fileError(wr.w.root, wr.err)
	}
	out := &envd.WatcherEvents{Events: wr.events}
	wr.events = nil
	return out, nil
}

func (s *Server) removeWatcher(_ *conn, _ *http.Request, in *envd.WatcherID) (*envd.Empty, error) {
	wr, err := s.watcher(in.WatcherID, true)
	if err != nil {
		return nil, err
	}
	wr.w.f.Close()
	return &envd.Empty{}, nil
}

// closeAll ends the watchers when the server does.
func (ws *watchers) closeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, wr := range ws.byID {
		wr.w.f.Close()
	}
}
