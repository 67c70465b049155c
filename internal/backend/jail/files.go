package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/workspace"
)

// filesName is the one file of an image of files.
const filesName = "files"

// noMemory is why an image has no memory.
const noMemory = "a process tree of the host's kernel cannot be saved with its memory"

// noCheckpoint says what can be saved instead of memory.
func (b *Backend) noCheckpoint() api.Ability {
	a := api.Ability{Capability: api.CapCheckpoint, Reason: noMemory + "; its files can be saved and forked",
		Fix: "Choose the gvisor backend where memory snapshots are needed."}
	if ok, why := b.cgroups.Has(cgroup.Freezer); !ok {
		a.Reason = noMemory + ", and its files only where it can be made to stand still, which needs a freezer: " + why
	}
	return a
}

// saveFiles writes what the sandbox wrote over its layers, while it stands still.
func (m *machine) saveFiles(ctx context.Context, dir string, o sandbox.SaveOptions) (saved sandbox.Saved, err error) {
	if m.ws != nil && m.ws.upper != nil {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s has a durable workspace, which outlives it and is not saved with it", m.id)
	}
	if m.sizeOnly || m.adopted && m.disk < 0 {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s was taken over from a daemon that ended, and what it wrote cannot be reached any more by an ordinary user's daemon", m.id).
			WithHint("copy what you need out of it: hortus sandbox cp")
	}
	if a := m.b.limit(api.CapPause); !a.OK {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s: what it wrote cannot be saved while it goes on writing, and it cannot be made to stand still (capability %s): %s",
			m.id, api.CapPause, a.Reason).WithHint("%s", a.Fix)
	}
	if err := m.takeTurn(ctx); err != nil {
		return saved, err
	}
	defer m.endTurn()
	m.mu.Lock()
	was := m.paused
	m.mu.Unlock()
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
		// Whatever became of the save, and of the caller's patience.
		if terr := m.setFrozen(context.WithoutCancel(ctx), false); terr != nil && err == nil {
			err = terr
		}
	}()
	if err := m.writeFiles(ctx, filepath.Join(dir, filesName)); err != nil {
		return saved, err
	}
	// Who ends a sandbox lets it go on for a moment, in which it may have written.
	if err := m.stillThere(); err != nil {
		return saved, err
	}
	if standing = o.Hold && !was; standing {
		m.mu.Lock()
		m.standing = true
		m.mu.Unlock()
	}
	saved.Kind, saved.Mark = api.SnapshotFiles, m.b.filesMark()
	if !o.Files {
		saved.Why = noMemory
	}
	return saved, nil
}

// stillThere is an error when somebody has ended the sandbox.
func (m *machine) stillThere() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended() || m.cause != "" {
		return api.Errorf(api.KindUnavailable, "sandbox %s ended while it was saved: %s", m.id, m.cause)
	}
	return nil
}

// writeFiles copies the upper layers into a file.
func (m *machine) writeFiles(ctx context.Context, path string) error {
	m.mu.Lock()
	disk, err := -1, error(unix.EBADF)
	if m.disk >= 0 {
		disk, err = unix.FcntlInt(uintptr(m.disk), unix.F_DUPFD_CLOEXEC, 0)
	}
	m.mu.Unlock()
	if err != nil {
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	}
	defer unix.Close(disk)
	trees := []upper.Tree{{Name: upper.Root}}
	names := []string{initns.UpperDir}
	if m.ws != nil {
		trees = append(trees, upper.Tree{Name: upper.Workspace})
		names = append(names, initns.WorkspaceUpperDir+"/"+workspace.Upper)
	}
	for i := range trees {
		if trees[i].Dir, err = upper.Open(disk, names[i]); err != nil {
			return api.Errorf(api.KindInternal, "sandbox %s: its %s layer: %w", m.id, trees[i].Name, err)
		}
		defer unix.Close(trees[i].Dir)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		err = upper.Write(ctx, f, trees, upper.Options{
			ID: m.insideID, Entries: inodes(m.limits.DiskBytes), Bytes: m.limits.DiskBytes, Lift: !m.b.root,
		})
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	var refused *upper.RefusedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return api.Errorf(api.KindOf(ctx.Err()), "sandbox %s was not saved in time: %w", m.id, ctx.Err())
	case errors.As(err, &refused):
		return api.Errorf(api.KindConflict, "sandbox %s holds what cannot be saved: %s", m.id, clip(refused.Error(), 300)).
			WithHint("Remove it and save again.")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return api.Errorf(api.KindExhausted, "sandbox %s was not saved: the host's disk is full: %w", m.id, err).WithHint("make room: hortus gc")
	case m.stillThere() != nil:
		return m.stillThere()
	}
	return api.Errorf(api.KindInternal, "sandbox %s was not saved: %w", m.id, err)
}

// insideID gives the id inside for one of the host's.
func (m *machine) insideID(host uint32) (uint32, bool) {
	if m.lease == nil {
		return userUID, int(host) == os.Geteuid() || int(host) == os.Getegid()
	}
	inside := int64(host) - int64(m.lease.base)
	return uint32(inside), inside >= 0 && inside < rangeSize
}

// filesMark says what starts from an image of files: any guest, on any kernel.
func (b *Backend) filesMark() api.ImageMark { return api.ImageMark{Backend: b.Name()} }

// FilesMark is the mark of the images that Save makes of files.
func (b *Backend) FilesMark(kind api.SnapshotKind) (api.ImageMark, error) {
	if kind != api.SnapshotFiles {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "the %s backend has snapshots of files alone, none of kind %q (capability %s)", b.Name(), kind, api.CapCheckpoint)
	}
	return b.filesMark(), nil
}

// savedError says why the files of an image could not be unpacked.
func savedError(id api.SandboxID, s *stageError) error {
	err := fmt.Errorf("sandbox %s: %w", id, s)
	switch s.Errno {
	case unix.EBADMSG:
		return api.Errorf(api.KindConflict, "%w", err)
	case unix.ENOSPC, unix.EDQUOT:
		return api.Errorf(api.KindExhausted, "%w", err).WithHint("Give it the disk that the saved one had.")
	}
	return api.Errorf(api.KindInternal, "%w", err)
}
