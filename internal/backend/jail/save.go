package jail

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/probe"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/sandbox"
)

// Save writes the memory of a kernel of its own, otherwise the files. See sandbox.Machine.
func (m *machine) Save(ctx context.Context, dir string, o sandbox.SaveOptions) (sandbox.Saved, error) {
	if o.Files && o.CopyMemory {
		return sandbox.Saved{}, api.Errorf(api.KindInvalid, "sandbox %s: memory cannot be copied if only files are saved", m.id).
			WithHint("Remove --files-only.")
	}
	if m.b.cfg.Kernel == nil {
		return m.saveFiles(ctx, dir, o)
	}
	return m.saveMemory(ctx, dir, o)
}

// saveMemory writes the state of a kernel of its own.
func (m *machine) saveMemory(ctx context.Context, dir string, o sandbox.SaveOptions) (sandbox.Saved, error) {
	var saved sandbox.Saved
	if o.Files {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s: its files cannot be saved without its memory", m.id).
			WithHint("Remove --files-only.")
	}
	if m.workdir.Durable() && o.Standstill == nil {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s has a durable workspace, which a memory snapshot does not contain", m.id)
	}
	if o.Standstill != nil {
		if err := m.b.require(api.CapPause); err != nil {
			return saved, err
		}
	}
	if m.isPaused() {
		// A frozen kernel can neither close its streams nor write.
		if err := m.Resume(ctx); err != nil {
			return saved, err
		}
		defer m.Pause(context.WithoutCancel(ctx))
	}
	k := m.b.cfg.Kernel
	memory := m.b.memory(m)
	call := k.Save()
	q := keeper.Request{Save: &call}
	if err := memory.share(k, &m.b.held, o, &q); err != nil {
		return saved, err
	}
	release := func() { m.b.release(context.WithoutCancel(ctx), dir, memory.Freeze, m.id) }
	if o.Hold || o.Standstill != nil {
		stop := k.Hold()
		q.Hold = &stop
	}
	r, err := memory.Save(ctx, dir, k.Files(), q)
	if memory.Freeze != "" {
		if err == nil {
			err = m.b.hold(dir, memory, r.Held)
		}
		m.b.held.end(memory.Freeze)
		if err != nil {
			if r.Conn != nil {
				r.Conn.Close()
			}
			release() // its kernel may hold the memory nevertheless
			return saved, err
		}
		saved.Done = release
	}
	if err != nil {
		return saved, err
	}
	if r.Conn != nil {
		m.hold.keep(r.Conn)
	}
	saved.Mark = m.image // of its own kernel, which may differ from that of new sandboxes
	saved.Kind, saved.Paused = api.SnapshotMemory, time.Duration(r.PausedUS)*time.Microsecond
	if saved.Memory, saved.MemoryWhy, err = m.b.memoryOf(dir, o); err != nil {
		return saved, err
	}
	if o.Standstill == nil {
		return saved, nil
	}
	still, err := m.standstill(ctx, o)
	saved.Paused += still
	if err != nil && saved.Done != nil {
		release()
		saved.Done = nil
	}
	return saved, err
}

// memoryOf says what sandboxes that start from an image do with its memory, by the same facts that
// their start decides by.
func (b *Backend) memoryOf(dir string, o sandbox.SaveOptions) (api.MemoryOrigin, string, error) {
	bases, refers, err := image.ReadBases(dir)
	switch {
	case err != nil:
		return "", "", err
	case refers && (b.cfg.Kernel.Shared() || len(bases.Others) > 0):
		return api.MemoryShared, "", nil
	case o.CopyMemory:
		return api.MemoryCopied, "", nil
	case !b.cfg.Kernel.Shared():
		return api.MemoryCopied, "this build of the sandbox's own kernel cannot refer to the memory of an image", nil
	}
	return api.MemoryCopied, "the image does not refer to memory", nil
}

// saveFiles writes what the sandbox wrote over its layers, while it is frozen.
func (m *machine) saveFiles(ctx context.Context, dir string, o sandbox.SaveOptions) (saved sandbox.Saved, err error) {
	if m.workdir.Durable() {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s has a durable workspace, which a file snapshot does not contain", m.id)
	}
	if m.adopted && !m.disk.readable() {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s was adopted from a daemon that ended, and an ordinary user's daemon cannot read its files", m.id).
			WithHint("copy what you need out of it: hortus sandbox cp")
	}
	if a := m.b.prober.Limit(api.CapPause); !a.OK {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s: files can be saved only while the sandbox is paused, and it cannot be paused (capability %s): %s",
			m.id, api.CapPause, a.Reason).WithHint("%s", a.Fix)
	}
	if err := m.turn.take(ctx, m.id); err != nil {
		return saved, err
	}
	defer m.turn.end()
	was := m.isPaused()
	start := time.Now()
	if err := m.setFrozen(ctx, true); err != nil {
		return saved, err
	}
	standing := false
	defer func() {
		defer func() { saved.Paused = time.Since(start) }()
		if was || standing {
			return
		}
		// Also after a failure, and if the caller has given up.
		if terr := m.setFrozen(context.WithoutCancel(ctx), false); terr != nil && err == nil {
			err = terr
		}
	}()
	if err := m.writeFiles(ctx, dir, o); err != nil {
		return saved, err
	}
	// A kill thaws the sandbox for a moment, in which it may have written.
	if err := m.stillRunning(); err != nil {
		return saved, err
	}
	if standing = o.Hold && !was; standing {
		m.setStanding(true)
	}
	saved.Kind, saved.Mark = api.SnapshotFiles, m.b.filesMark()
	if !o.Files {
		saved.Why = probe.NoMemory
	}
	return saved, nil
}

// stillRunning returns an error if the sandbox is ending.
func (m *machine) stillRunning() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended() || m.cause != "" {
		return api.Errorf(api.KindUnavailable, "sandbox %s ended while it was being saved: %s", m.id, m.cause)
	}
	return nil
}

// writeFiles writes into an image what the machine and its ancestors wrote over their layers.
func (m *machine) writeFiles(ctx context.Context, dir string, o sandbox.SaveOptions) error {
	disk, err := m.disk.dup()
	if err != nil {
		return ended(m.id)
	}
	defer unix.Close(disk)
	tree, done, err := m.tree(ctx, disk)
	defer done()
	how := upper.Options{ID: m.ids.Inside, Entries: workdir.Inodes(m.limits.DiskBytes), Bytes: m.limits.DiskBytes, Lift: m.ids == nil}
	copies := true
	if err == nil && m.shares(ctx, dir, o) {
		err = m.writeFork(ctx, dir, tree, how)
		copies = errors.Is(err, upper.ErrNoLayer)
	}
	if err == nil && copies || errors.Is(err, upper.ErrNoLayer) {
		err = image.WriteFiles(ctx, dir, tree, m.workdir != nil, how)
	}
	var refused *upper.RefusedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return api.Errorf(api.KindOf(ctx.Err()), "timeout: sandbox %s was not saved: %w", m.id, ctx.Err())
	case errors.As(err, &refused):
		return api.Errorf(api.KindConflict, "sandbox %s contains a file that cannot be saved: %s", m.id, child.Sanitize(refused.Error())).
			WithHint("Remove it and save again.")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return api.Errorf(api.KindExhausted, "sandbox %s was not saved: the host's disk is full: %w", m.id, err).WithHint("free disk space: hortus gc")
	case m.stillRunning() != nil:
		return m.stillRunning()
	}
	return api.Errorf(api.KindInternal, "sandbox %s was not saved: %w", m.id, err)
}
