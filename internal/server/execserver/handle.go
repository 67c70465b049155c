package execserver

import (
	"context"
	"errors"
	"io"
	"sync"

	"hortus.dev/api"
)

// handles are the files that a session has open, by the names that the peer chose.
type handles struct {
	mu sync.Mutex
	by map[string]*handle
}

// handle reads one file. Blocks are mostly asked for in their order; an earlier one opens
// the file again.
type handle struct {
	path string

	turn chan struct{} // taken by the one request that reads
	r    io.ReadCloser
	stop context.CancelFunc
	at   int64
}

type openParams struct {
	HandleID string `json:"handleId"`
	pathParams
}

func (s *session) openFile(ctx context.Context, in openParams) (any, error) {
	if err := nameOf("handleId", in.HandleID); err != nil {
		return nil, err
	}
	p, err := in.where()
	if err != nil {
		return nil, err
	}
	h := &handle{path: p, turn: make(chan struct{}, 1)}
	h.turn <- struct{}{}
	defer h.done()
	if err := s.handles.add(in.HandleID, h); err != nil {
		return nil, err
	}
	if err := h.open(ctx, s); err != nil {
		s.handles.take(in.HandleID)
		return nil, err
	}
	return struct {
		HandleID string `json:"handleId"`
	}{in.HandleID}, nil
}

// open opens the file at its beginning. The file stays open longer than the request.
func (h *handle) open(ctx context.Context, s *session) error {
	h.close()
	life, stop := context.WithCancel(s.ctx)
	hurry := context.AfterFunc(ctx, stop)
	r, err := s.cfg.Sandbox.ReadFile(life, h.path)
	if !hurry() && err == nil {
		r.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return err
	}
	h.r, h.stop, h.at = r, stop, 0
	return nil
}

// done gives the turn to the next request.
func (h *handle) done() { <-h.turn }

// close closes the file.
func (h *handle) close() {
	if h.r != nil {
		h.stop()
		h.r.Close()
		h.r = nil
	}
}

type blockParams struct {
	HandleID string `json:"handleId"`
	Offset   int64  `json:"offset"`
	Len      int    `json:"len"`
}

func (s *session) readBlock(ctx context.Context, in blockParams) (any, error) {
	if in.Offset < 0 || in.Len < 1 || in.Len > maxBlock {
		return nil, api.Errorf(api.KindInvalid, "a block must begin at 0 or later and have 1 to %d bytes", maxBlock)
	}
	h := s.handles.get(in.HandleID)
	if h == nil {
		return nil, unknownHandle(in.HandleID)
	}
	select {
	case h.turn <- struct{}{}:
		defer h.done()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.r == nil || in.Offset < h.at {
		if s.handles.get(in.HandleID) != h {
			return nil, unknownHandle(in.HandleID)
		}
		if err := h.open(ctx, s); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, h.stop)()
	b := make([]byte, in.Len)
	n, err := io.CopyN(io.Discard, h.r, in.Offset-h.at)
	h.at += n
	read := 0
	if err == nil {
		read, err = io.ReadFull(h.r, b)
		h.at += int64(read)
	}
	end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil {
		h.close() // the next block opens it again
	}
	if err != nil && !end {
		return nil, err
	}
	return struct {
		Chunk []byte `json:"chunk"`
		EOF   bool   `json:"eof"`
	}{b[:read], end}, nil
}

func unknownHandle(id string) error {
	return api.Errorf(api.KindConflict, "unknown file handle %.64q", id)
}

func (s *session) closeFile(in openParams) (any, error) {
	if h := s.handles.take(in.HandleID); h != nil {
		s.requests.Go(func() {
			h.turn <- struct{}{} // every request has a bound
			defer h.done()
			h.close()
		})
	}
	return struct{}{}, nil
}

// add takes a handle in under its name.
func (hs *handles) add(name string, h *handle) error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	switch {
	case hs.by[name] != nil:
		return api.Errorf(api.KindExists, "file handle %.64q already exists", name)
	case len(hs.by) >= maxHandles:
		return api.Errorf(api.KindExhausted, "%d files are open, which is the maximum", maxHandles)
	}
	if hs.by == nil {
		hs.by = map[string]*handle{}
	}
	hs.by[name] = h
	return nil
}

func (hs *handles) get(name string) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.by[name]
}

// take removes a handle and returns it.
func (hs *handles) take(name string) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.by[name]
	delete(hs.by, name)
	return h
}

// closeAll closes the files of a session whose requests have ended.
func (hs *handles) closeAll() {
	for _, h := range hs.by {
		h.close()
	}
}
