package daemon

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/storage/space"
	"hortus.dev/internal/store"
)

// openSpace opens the floor of the disk and the ledger of what accounts store. Its parts are those of stores that are
// opened later: nothing is measured before.
func (s *System) openSpace() error {
	ceiling := s.cfg.AccountBytes
	if ceiling == 0 {
		var st unix.Statfs_t
		if err := unix.Statfs(string(s.dir), &st); err != nil {
			return api.Errorf(api.KindInternal, "data directory: %w", err)
		}
		ceiling = int64(st.Blocks) * st.Bsize / 2
	}
	s.space = space.New(space.Config{Dir: string(s.dir), Ledger: space.NewLedger(space.LedgerConfig{
		Ceiling: max(ceiling, 0), Logger: s.log,
		Parts: []space.Part{
			{Name: "workspaces", Bytes: func(ctx context.Context, account string) (int64, error) {
				ids, err := storedIDs[api.WorkspaceID](ctx, s.db, store.KindWorkspace, account)
				if err != nil {
					return 0, err
				}
				return s.workspaces.Stored(ctx, ids)
			}},
			{Name: "snapshots", Bytes: func(ctx context.Context, account string) (int64, error) {
				ids, err := storedIDs[api.SnapshotID](ctx, s.db, store.KindSnapshot, account)
				if err != nil {
					return 0, err
				}
				return s.snapshots.Stored(ids)
			}},
			{Name: "volumes", Bytes: func(ctx context.Context, account string) (int64, error) { return s.volumes.Bytes(ctx, account) }},
			{Name: "tasks", Adds: true, Bytes: s.taskBytes},
		},
	})})
	return nil
}

// takeSpace counts what tasks, sessions and documents of an account write, and refuses it beyond the ceiling or below the floor.
func (s *System) takeSpace(ctx context.Context, account, what string, need int64) error {
	// What an ended task has written is counted too.
	if err := s.space.Ledger().Add(context.WithoutCancel(ctx), account, what, need); err != nil {
		return err
	}
	return s.space.In(s.dir.Tasks()).Check(what, need)
}

// taskBytes returns what the tasks, sessions and documents of an account take: their files, the events and the texts.
func (s *System) taskBytes(ctx context.Context, account string) (int64, error) {
	sum, err := s.db.EventBytes(ctx, account)
	if err != nil {
		return 0, err
	}
	documents, err := s.db.DocumentBytes(ctx, account)
	if err != nil {
		return 0, err
	}
	sum += documents
	for kind, dir := range map[store.Kind]string{store.KindTask: s.dir.Tasks(), store.KindSession: s.dir.Path("sessions")} {
		ids, err := s.db.StoredIDs(ctx, kind, account)
		if err != nil {
			return 0, err
		}
		for _, id := range ids {
			err := filepath.WalkDir(filepath.Join(dir, id), func(path string, _ fs.DirEntry, err error) error {
				var st unix.Stat_t
				switch {
				case errors.Is(err, fs.ErrNotExist): // it was removed, or never made
					return nil
				case err != nil:
					return err
				case unix.Lstat(path, &st) == nil:
					sum += st.Blocks * 512
				}
				return ctx.Err()
			})
			if err != nil {
				return 0, err
			}
		}
	}
	return sum, nil
}

func storedIDs[ID ~string](ctx context.Context, db store.Amounts, kind store.Kind, account string) ([]ID, error) {
	texts, err := db.StoredIDs(ctx, kind, account)
	ids := make([]ID, len(texts))
	for i, t := range texts {
		ids[i] = ID(t)
	}
	return ids, err
}

// accountUsage returns what accounts store.
func (s *System) accountUsage(ctx context.Context, names ...string) ([]admin.AccountUsage, error) {
	ledger, out := s.space.Ledger(), make([]admin.AccountUsage, 0, len(names))
	for _, name := range names {
		used, err := ledger.Used(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, admin.AccountUsage{Account: name, Bytes: used, LimitBytes: ledger.Ceiling(name)})
	}
	return out, nil
}
