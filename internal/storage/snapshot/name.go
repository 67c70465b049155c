package snapshot

import (
	"context"
	"slices"

	"hortus.dev/api"
)

// publish stores the row of a snapshot that is ready. In the same transaction the other snapshots of
// the account lose its names.
func (s *Store) publish(ctx context.Context, r api.Snapshot) error {
	if r.Name == "" {
		return s.cfg.Rows.UpdateSnapshot(ctx, r)
	}
	return s.rename(ctx, r.Account, func(rows []api.Snapshot) ([]api.Snapshot, error) { return s.takeNames(rows, r), nil })
}

// Tag adds names to a template. The other snapshots of its account lose them, and those that have no
// other name are removed.
//
// Errors: KindNotFound for what is no template now, KindExhausted for too many names.
func (s *Store) Tag(ctx context.Context, id api.SnapshotID, names []string) (api.Snapshot, error) {
	return s.change(ctx, id, func(rows []api.Snapshot, r *api.Snapshot) ([]api.Snapshot, error) {
		r.SetNames(append(r.Names(), names...))
		if n := len(r.Names()); n > api.MaxTemplateNames {
			return nil, api.Errorf(api.KindExhausted, "template %s would have %d names; the maximum is %d", r.Name, n, api.MaxTemplateNames).
				WithHint("remove some of them: hortus template rm NAME:TAG")
		}
		return s.takeNames(rows, *r), nil
	})
}

// Untag takes a name from a template. The snapshot is removed with its last name.
//
// Errors: KindNotFound for what is no template of that name now.
func (s *Store) Untag(ctx context.Context, id api.SnapshotID, name string) (api.Snapshot, error) {
	return s.change(ctx, id, func(_ []api.Snapshot, r *api.Snapshot) ([]api.Snapshot, error) {
		if !r.HasName(name) {
			return nil, api.Errorf(api.KindNotFound, "snapshot %s is not template %.200s", id, name)
		}
		*r = s.without(*r, []string{name}, "its last name was removed")
		return []api.Snapshot{*r}, nil
	})
}

// change calls f with a template and all templates of its account, and stores what f returns.
func (s *Store) change(ctx context.Context, id api.SnapshotID, f func(rows []api.Snapshot, r *api.Snapshot) ([]api.Snapshot, error)) (api.Snapshot, error) {
	r, err := s.Snapshot(ctx, id)
	if err != nil {
		return r, err
	}
	err = s.rename(ctx, r.Account, func(rows []api.Snapshot) ([]api.Snapshot, error) {
		i := slices.IndexFunc(rows, func(o api.Snapshot) bool { return o.ID == id && o.State == api.SnapshotReady })
		if i < 0 {
			return nil, api.Errorf(api.KindNotFound, "snapshot %s is not a template", id)
		}
		r = rows[i]
		return f(rows, &r)
	})
	return r, err
}

// rename changes names of templates in one transaction, and removes the files of those that are
// removed by it. What remains of them after a crash Recover removes.
func (s *Store) rename(ctx context.Context, account string, change func([]api.Snapshot) ([]api.Snapshot, error)) error {
	var changed []api.Snapshot
	err := s.cfg.Rows.ChangeTemplates(ctx, account, func(rows []api.Snapshot) (_ []api.Snapshot, err error) {
		changed, err = change(rows)
		return changed, err
	})
	if err != nil {
		return err
	}
	s.step("ready")
	for _, r := range changed {
		if r.State == api.SnapshotRemoved {
			_ = s.release(r) // it is in the log
		}
	}
	return nil
}

// takeNames returns r and the rows that lose names to it.
func (s *Store) takeNames(rows []api.Snapshot, r api.Snapshot) []api.Snapshot {
	out := []api.Snapshot{r}
	for _, o := range rows {
		if o.ID != r.ID && o.State == api.SnapshotReady && slices.ContainsFunc(r.Names(), o.HasName) {
			out = append(out, s.without(o, r.Names(), "replaced by "+string(r.ID)+" as template "+r.Name))
		}
	}
	return out
}

// without returns a row without some names: removed, if it has no others.
func (s *Store) without(r api.Snapshot, names []string, reason string) api.Snapshot {
	r.SetNames(slices.DeleteFunc(r.Names(), func(n string) bool { return slices.Contains(names, n) }))
	if r.Name == "" {
		r.State, r.Reason, r.EndedAt = api.SnapshotRemoved, reason, s.cfg.Now().UTC()
	}
	return r
}

// separate leaves each name to the newest snapshot of an account that has it. Several have it if
// their rows were lost and come from their manifests.
func (s *Store) separate(ctx context.Context, account string) error {
	return s.rename(ctx, account, func(rows []api.Snapshot) (out []api.Snapshot, _ error) {
		var taken []string
		for _, r := range rows { // the newest first
			if r.State != api.SnapshotReady {
				continue
			}
			if slices.ContainsFunc(taken, r.HasName) {
				r = s.without(r, taken, "replaced by a newer snapshot as template "+r.Name)
				out = append(out, r)
			}
			taken = append(taken, r.Names()...)
		}
		return out, nil
	})
}
