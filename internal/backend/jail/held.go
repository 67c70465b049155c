package jail

import (
	"context"
	"maps"
	"path/filepath"
	"sync"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/sandbox"
)

// held are the files in the memory of sandboxes that images refer to, by the directories of the
// images. They are images of forks, which are needed for a moment.
type held struct {
	mu sync.Mutex
	of map[string]image.Held
	// begun are the names of images that are being made.
	begun map[string]bool
}

// begin makes a name one that is used, until end.
func (h *held) begin(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun == nil {
		h.begun = map[string]bool{}
	}
	h.begun[name] = true
}

func (h *held) end(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.begun, name)
}

func (h *held) add(dir string, files image.Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]image.Held{}
	}
	h.of[dir] = files
}

func (h *held) remove(dir string) {
	h.mu.Lock()
	files := h.of[dir]
	delete(h.of, dir)
	h.mu.Unlock()
	files.Close()
}

// open returns descriptors of the files of an image that are in the memory of sandboxes, by their names.
func (h *held) open(dir string, b image.Bases) (image.Held, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := image.Held{}
	for name, holder := range b.Holders {
		open := h.of[dir][name]
		if open == nil {
			out.Close()
			return nil, api.Errorf(api.KindConflict, "the image of a fork refers to the memory of sandbox %s, and can only be restored while the fork is made", holder)
		}
		f, err := image.Again(open)
		if err != nil {
			out.Close()
			return nil, err
		}
		out[name] = f
	}
	return out, nil
}

// uses reports whether an image that is still needed refers to a name, or one that is being made.
func (h *held) uses(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun[name] {
		return true
	}
	for _, files := range h.of {
		if files[name] != nil {
			return true
		}
	}
	return false
}

// memorySave is the memory of a machine that is saved.
type memorySave struct{ image.Memory }

func (b *Backend) memory(m *machine) *memorySave {
	return &memorySave{image.Memory{ID: m.id, Dir: m.dir, PID: m.proc.Pid, Bases: b.basesDir(m.id), Cause: m.Cause}}
}

// freeze names the memory of the sandbox for an image that refers to it. The note outlives this
// daemon: the next one knows from it what no sandbox refers to.
func (s *memorySave) freeze(h *held) error {
	s.Freeze = image.NewBase()
	h.begin(s.Freeze)
	if err := image.NoteFrozen(s.Bases, s.Freeze); err != nil {
		h.end(s.Freeze)
		return api.Errorf(api.KindInternal, "sandbox %s: %w", s.ID, err)
	}
	return nil
}

// share decides what an image refers to: that of a fork to the memory of its parent, every other
// to files only.
func (s *memorySave) share(k launch.Kernel, h *held, o sandbox.SaveOptions, q *keeper.Request) error {
	if !k.Shared() {
		return nil
	}
	call := func(c keeper.Call) *keeper.Call { return &c }
	if o.CopyMemory {
		q.Prepare = call(k.CopyBases(nil))
		return nil
	}
	q.Bases = call(k.Bases())
	if o.Fork {
		if err := s.freeze(h); err != nil {
			return err
		}
		q.Prepare, q.Undo = call(k.Freeze(s.Freeze)), call(k.Thaw(s.Freeze))
		return nil
	}
	holders, err := image.Holders(s.Bases)
	if err != nil {
		return api.Errorf(api.KindInternal, "sandbox %s: %w", s.ID, err)
	}
	if len(holders) > 0 {
		var names []string
		for name := range holders {
			names = append(names, name)
		}
		q.Prepare = call(k.CopyBases(names))
	}
	return nil
}

// isFrozen reports whether the processes of a sandbox are frozen: its keeper would not respond.
func (b *Backend) isFrozen(id api.SandboxID) bool {
	r, err := rundir.Read(b.rundir(id), id)
	if err != nil {
		return false // it has no record yet, and cannot be paused
	}
	g, err := cgroup.At(string(id), r.Groups)
	if err != nil {
		return false
	}
	frozen, err := g.Frozen()
	return err == nil && frozen
}

// unused returns those of the names that nobody refers to any more. Nothing can refer to them again.
//
// Between an image and the directory of a sandbox that was restored from it there is no moment
// without one of both: release does not remove an image meanwhile.
func (b *Backend) unused(holders map[string]api.SandboxID) map[string]api.SandboxID {
	b.thawing.Lock()
	defer b.thawing.Unlock()
	out := maps.Clone(holders)
	dirs, err := filepath.Glob(filepath.Join(b.dir, "*"+basesSuffix))
	if err != nil {
		return nil // the pattern is constant
	}
	for _, dir := range dirs {
		others, err := image.Holders(dir)
		if err != nil {
			b.log.Warn("memory of forks stays in use", "err", err)
			return nil
		}
		for name := range others {
			delete(out, name)
		}
	}
	maps.DeleteFunc(out, func(name string, _ api.SandboxID) bool { return b.held.uses(name) })
	return out
}

// hold begins the use of an image that refers to memory of sandboxes. It fails if the saved sandbox
// was released meanwhile: those who held memory for it may have learned of it.
func (b *Backend) hold(dir string, s *memorySave, files image.Held) error {
	b.thawing.Lock()
	defer b.thawing.Unlock()
	b.held.add(dir, files)
	holders, err := image.Holders(s.Bases)
	if err != nil {
		return api.Errorf(api.KindInternal, "sandbox %s: %w", s.ID, err)
	}
	for name := range files {
		if _, ok := holders[name]; !ok && name != s.Freeze {
			return ended(s.ID)
		}
	}
	return nil
}

// release ends the use of an image that refers to memory of a sandbox.
func (b *Backend) release(ctx context.Context, dir, name string, id api.SandboxID) {
	b.thawing.Lock()
	b.held.remove(dir)
	b.thawing.Unlock()
	b.thaw(ctx, map[string]api.SandboxID{name: id})
}
