package snapshot

import (
	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// room reports whether need more bytes can be written and leave the floor free.
func (s *Store) room(need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return api.Errorf(api.KindInternal, "cannot measure the free disk space at %s: %w", s.dir, err)
	}
	return short(&st, s.cfg.DiskFloor, need)
}

func short(st *unix.Statfs_t, floor, need int64) error {
	if floor <= 0 {
		floor = min(int64(st.Blocks)*st.Bsize/20, 1<<30)
	}
	free := int64(st.Bavail) * st.Bsize
	if free-max(need, 0) >= floor {
		return nil
	}
	return api.Errorf(api.KindExhausted, "no space left for the snapshot: %d bytes free, about %d needed, and %d must stay free",
		free, max(need, 0), floor).WithHint("free disk space: hortus df shows the usage")
}
