package workspace

import (
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// claims are leases of layers whose names get into a record. Who collects the names reads one
// record after the other, while others write theirs: a record that comes too late for it keeps
// its leases until the names were used.
type claims struct {
	mu sync.Mutex
	// readers is how many calls of Named run, kept what is released when the last one ends.
	readers int
	kept    map[layer.Digest]*layer.Lease
}

// claim leases the layers that a record is about to name, so that nobody removes them. The
// record is in place, or will never be, when release is called.
func (s *Store) claim(digests []string) (release func(), err error) {
	leases := make(map[layer.Digest]*layer.Lease, len(digests))
	release = func() { s.claims.release(leases) }
	for _, text := range digests {
		d := layer.Digest(text)
		if leases[d] != nil {
			continue
		}
		tree, l, err := s.cfg.Layers.Lease(d)
		if err == nil {
			leases[d] = l
			err = plain(d, tree)
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// release releases leases, or keeps them until the last call of Named that runs has ended: it
// may have read the records before the one that they are for.
func (c *claims) release(leases map[layer.Digest]*layer.Lease) {
	c.mu.Lock()
	if c.readers > 0 {
		for d, l := range leases {
			if c.kept[d] == nil {
				c.kept[d] = l
				delete(leases, d)
			}
		}
	}
	c.mu.Unlock()
	for _, l := range leases {
		l.Release()
	}
}

// read notes a call of Named, until done is called.
func (c *claims) read() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers++
	return func() {
		var over map[layer.Digest]*layer.Lease
		c.mu.Lock()
		if c.readers--; c.readers == 0 {
			over, c.kept = c.kept, map[layer.Digest]*layer.Lease{}
		}
		c.mu.Unlock()
		for _, l := range over {
			l.Release()
		}
	}
}

// Named calls f with the layers that workspaces lie on. Workspaces are made meanwhile; the layers
// that a new one names are leased until f returns, so f must remove nothing that is leased. A
// record that cannot be read fails it: what it names is not known.
func (s *Store) Named(f func(named []layer.Digest) error) error {
	defer s.claims.read()()
	ids, err := s.List()
	if err != nil {
		return err
	}
	var named []layer.Digest
	for _, id := range ids {
		w, err := s.Get(id)
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		if err != nil {
			return err
		}
		for _, d := range w.Layers {
			named = append(named, layer.Digest(d))
		}
	}
	return f(named)
}
