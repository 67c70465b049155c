package jail

import (
	"context"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/rundir"
)

// useTimeout is the maximum wait for a kernel to say what memory it shares.
const useTimeout = 2 * time.Second

// useAgain is how long a kernel that did not say so is not asked again: its keeper answers one caller
// after the other.
const useAgain = 30 * time.Second

// sharedMemory is what a machine shared when its kernel last said so.
type sharedMemory struct {
	mu    sync.Mutex
	known bool
	of    []api.SharedMemory
	after time.Time // when it may be asked
}

// addShared adds the memory that the sandbox shares. Only its kernel can count it. One that is paused
// or does not answer is taken to share what it did before.
func (m *machine) addShared(ctx context.Context, s *api.Stats) {
	k := m.b.cfg.Kernel
	if k == nil || !k.Shared() || !image.HasBases(m.b.basesDir(m.id)) {
		return
	}
	var use []api.SharedMemory
	asked := false
	if !m.isPaused() && !m.hold.held() && m.shared.mayAsk() {
		ctx, cancel := context.WithTimeout(ctx, useTimeout)
		defer cancel()
		var err error
		use, err = m.b.memory(m).Use(ctx, k.BaseUse())
		if asked = err == nil; !asked {
			m.shared.failed()
		}
	}
	if use = m.shared.note(use, asked); use == nil {
		s.MemorySharedBytes = -1
		return
	}
	for i, u := range use {
		s.MemorySharedBytes += u.Bytes
		if u.Holder != "" && !m.b.alive(u.Holder) {
			use[i].Holder = ""
		}
	}
	s.SharedMemory = use
}

func (h *sharedMemory) mayAsk() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !time.Now().Before(h.after)
}

func (h *sharedMemory) failed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.after = time.Now().Add(useAgain)
}

// note stores what was said, if anything was, and returns a copy of what is known; nil if nothing is.
func (h *sharedMemory) note(use []api.SharedMemory, asked bool) []api.SharedMemory {
	h.mu.Lock()
	defer h.mu.Unlock()
	if asked {
		h.of, h.known = use, true
	}
	if !h.known {
		return nil
	}
	return append([]api.SharedMemory{}, h.of...)
}

// alive reports whether a sandbox runs.
func (b *Backend) alive(id api.SandboxID) bool {
	pid, ok, err := rundir.ReadPID(b.rundir(id))
	return err == nil && ok && pid.Alive()
}
