package watch

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
	"hortus.dev/internal/guest/credential"
	"hortus.dev/internal/guest/files"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/rpc"
)

const (
	// maxWatchers is the maximum number of polled watchers.
	maxWatchers = 64
	// maxQueued is the maximum number of changes that a polled watcher keeps.
	maxQueued = 10_000
)

// Service serves the requests about changes of directories.
type Service struct {
	ids    *identity.Set
	access *credential.Switcher
	files  *files.Service

	mu   sync.Mutex
	byID map[string]*watcher // polled watchers
	wg   sync.WaitGroup
}

// New returns a service. The caller must call Close.
func New(ids *identity.Set, access *credential.Switcher, files *files.Service) *Service {
	return &Service{ids: ids, access: access, files: files, byID: make(map[string]*watcher)}
}

// Handlers returns the handlers by their paths.
func (s *Service) Handlers() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		envd.FSWatchDir:         s.watchDir,
		envd.FSCreateWatcher:    rpc.Unary(s.createWatcher),
		envd.FSGetWatcherEvents: rpc.Unary(s.watcherEvents),
		envd.FSRemoveWatcher:    rpc.Unary(s.removeWatcher),
	}
}

// watchDir serves WatchDir: a start event, then changes until the client leaves.
func (s *Service) watchDir(c *rpc.Conn, req *http.Request) error {
	var in envd.WatchRequest
	codec, ok, err := c.StreamRequest(req, &in)
	if !ok {
		return err
	}
	opt, err := rpc.StreamOptionsOf(req)
	if err != nil {
		return c.FailStream(codec, err)
	}
	id, err := s.ids.Of(req)
	if err != nil {
		return c.FailStream(codec, err)
	}
	w, err := s.newWatch(id, &in)
	if err != nil {
		return c.FailStream(codec, err)
	}
	defer w.f.Close()
	gone, stop := c.WatchHangup()
	ended := make(chan struct{})
	var helper sync.WaitGroup
	helper.Go(func() {
		select {
		case <-gone:
			w.f.Close() // interrupts the wait below
		case <-c.Ended():
			w.f.Close()
		case <-ended:
		}
	})
	defer helper.Wait()
	defer stop()
	defer close(ended)
	out := c.Begin(codec)
	out.Message(&envd.WatchDirResponse{Start: &envd.Empty{}})
	for {
		if err := out.Flush(); err != nil {
			return err
		}
		until := opt.Due
		if opt.Keepalive > 0 {
			if next := time.Now().Add(opt.Keepalive); until.IsZero() || next.Before(until) {
				until = next
			}
		}
		w.f.SetReadDeadline(until)
		events, err := w.next()
		for _, e := range events {
			out.Message(&envd.WatchDirResponse{Filesystem: e})
		}
		switch {
		case opt.Late():
			return out.Finish(envd.FromAPI(rpc.ErrStreamTimeout))
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			out.Message(&envd.WatchDirResponse{Keepalive: &envd.Empty{}})
		case errors.Is(err, os.ErrClosed):
			return rpc.ErrGone
		default:
			return out.Finish(envd.FromAPI(files.Error(w.root, err)))
		}
	}
}

// watcher keeps the changes of a watch until a client fetches them.
type watcher struct {
	w *watch

	mu     sync.Mutex
	events []*envd.FilesystemEvent
	err    error // why the watch ended
}

func (s *Service) createWatcher(_ *rpc.Conn, req *http.Request, in *envd.WatchRequest) (*envd.WatcherID, error) {
	id, err := s.ids.Of(req)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxWatchers {
		w.f.Close()
		return nil, api.Errorf(api.KindExhausted, "watcher limit reached: %d are open", maxWatchers)
	}
	s.byID[key] = wr
	s.wg.Go(wr.run)
	return &envd.WatcherID{WatcherID: key}, nil
}

// run collects changes until the watch is closed or fails.
func (wr *watcher) run() {
	for {
		events, err := wr.w.next()
		wr.mu.Lock()
		wr.events = append(wr.events, events...)
		if len(wr.events) > maxQueued {
			wr.events, err = nil, api.Errorf(api.KindExhausted, "watch '%s': more than %d changes were not fetched and are lost", wr.w.root, maxQueued)
		}
		wr.err = err
		wr.mu.Unlock()
		if err != nil {
			wr.w.f.Close()
			return
		}
	}
}

func (s *Service) watcher(key string, remove bool) (*watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wr := s.byID[key]
	if wr == nil {
		return nil, api.Errorf(api.KindNotFound, "watcher %q not found", key)
	}
	if remove {
		delete(s.byID, key)
	}
	return wr, nil
}

func (s *Service) watcherEvents(_ *rpc.Conn, _ *http.Request, in *envd.WatcherID) (*envd.WatcherEvents, error) {
	wr, err := s.watcher(in.WatcherID, false)
	if err != nil {
		return nil, err
	}
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if len(wr.events) == 0 && wr.err != nil {
		return nil, files.Error(wr.w.root, wr.err)
	}
	out := &envd.WatcherEvents{Events: wr.events}
	wr.events = nil
	return out, nil
}

func (s *Service) removeWatcher(_ *rpc.Conn, _ *http.Request, in *envd.WatcherID) (*envd.Empty, error) {
	wr, err := s.watcher(in.WatcherID, true)
	if err != nil {
		return nil, err
	}
	wr.w.f.Close()
	return &envd.Empty{}, nil
}

// Close ends the watchers that are polled, and waits for them.
func (s *Service) Close() {
	s.mu.Lock()
	for _, wr := range s.byID {
		wr.w.f.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
