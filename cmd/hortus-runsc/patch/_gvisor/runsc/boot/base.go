package boot

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
)

// restoreBases makes a restore refer to pages files instead of copying them. The first of
// o.Bases is the name of the checkpoint's own pages file, which is read by the loader too;
// the others are the names of the last files of the payload, in that order.
func (o *RestoreOpts) restoreBases(mf *pgalloc.MemoryFile) (err error) {
	if len(o.Bases) == 0 {
		return nil
	}
	if o.UseCheckpointGofer || !o.HavePagesFile || o.HaveDeviceFile {
		return fmt.Errorf("bases need local checkpoint files with a pages file, and no device file")
	}
	const pagesIndex = 2
	first := len(o.Files) - (len(o.Bases) - 1)
	if first <= pagesIndex {
		return fmt.Errorf("%d bases, but %d files", len(o.Bases), len(o.Files))
	}
	var own *pgalloc.BaseFile
	var others []*pgalloc.BaseFile
	for i, name := range o.Bases {
		index := pagesIndex
		if i > 0 {
			index = first + i - 1
		}
		f, err := fd.NewFromFile(o.Files[index]) // a duplicate
		if err != nil {
			return fmt.Errorf("base %s: %w", name, err)
		}
		b, err := pgalloc.NewBaseFile(name, f.FD())
		if err != nil {
			f.Close()
			return err
		}
		f.Release()
		if i == 0 {
			own = b
		} else {
			others = append(others, b)
		}
	}
	bases, err := pgalloc.NewBases(own, others...)
	if err != nil {
		return err
	}
	mf.SetBases(bases)
	return nil
}

// SavedBases returns the names of the pages files that the last checkpoint refers to, apart
// from its own.
func (cm *containerManager) SavedBases(_ *struct{}, out *[]string) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	*out = []string{}
	if b := cm.l.k.MemoryFile().Bases(); b != nil {
		*out = b.Saved()
	}
	return nil
}

// CopyBases makes the next checkpoint refer to no pages file but its own.
func (cm *containerManager) CopyBases(_, _ *struct{}) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	if b := cm.l.k.MemoryFile().Bases(); b != nil {
		b.CopyAll()
	}
	return nil
}
