package boot

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
	"gvisor.dev/gvisor/pkg/sentry/state/stateio"
	"gvisor.dev/gvisor/pkg/urpc"
)

// OnRestore is called when a restore begins, if it is not nil. It is set before the kernel is made.
var OnRestore func()

// restoreBases makes a restore refer to pages files instead of copying them. The first of
// o.Bases is the name of the checkpoint's own pages file, which is read by the loader too;
// the others are the names of the last files of the payload, in that order.
func (o *RestoreOpts) restoreBases(mf *pgalloc.MemoryFile) (err error) {
	if OnRestore != nil {
		OnRestore()
	}
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

// pagesReader returns what reads the pages file fd, which it owns. Each of its readers is a
// goroutine, and raises GOMAXPROCS by one, while pages are left to be loaded: that is as long
// as a sandbox lives that loads them on demand, so such a one has few.
func (o *RestoreOpts) pagesReader(fd int32) stateio.AsyncReader {
	if len(o.Bases) == 0 {
		return stateio.NewPagesFileFDReaderDefault(fd)
	}
	const maxReadBytes, readers = 256 << 10, 2
	return stateio.NewPagesFileFDReader(fd, maxReadBytes, readers)
}

// SavedBases is the result of containerManager.SavedBases. Its files are in the order of the
// names.
type SavedBases struct {
	urpc.FilePayload
	Names []string
}

// SavedBases returns the files that the last checkpoint refers to, apart from its own: bases,
// and the file of frozen memory, which is the only one that can be written.
func (cm *containerManager) SavedBases(_ *struct{}, out *SavedBases) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	mf := cm.l.k.MemoryFile()
	out.Names = []string{}
	for _, b := range mf.Bases().Saved() {
		n, err := unix.Dup(b.FD())
		if err != nil {
			return err
		}
		out.Names = append(out.Names, b.Name())
		out.Files = append(out.Files, os.NewFile(uintptr(n), b.Name()))
	}
	if name := mf.FrozenName(); name != "" {
		out.Names = append(out.Names, name)
		out.Files = append(out.Files, mf.File())
	}
	return nil
}

// BaseUse returns what private memory refers to in bases.
func (cm *containerManager) BaseUse(_ *struct{}, out *[]kernel.BaseUse) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	*out = cm.l.k.BaseUse()
	return nil
}

// CopyBases makes the next checkpoint refer to none of the named files, or to none but its own
// pages file if there are no names.
func (cm *containerManager) CopyBases(names *[]string, _ *struct{}) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	if b := cm.l.k.MemoryFile().Bases(); b != nil {
		b.Copy(*names)
	}
	return nil
}

// Freeze makes the next checkpoint freeze private memory instead of containing it.
func (cm *containerManager) Freeze(name *string, _ *struct{}) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	cm.l.k.MemoryFile().FreezeNext(*name)
	return nil
}

// Thaw ends the use of memory that a checkpoint froze.
func (cm *containerManager) Thaw(name *string, _ *struct{}) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	cm.l.k.MemoryFile().Thaw(*name)
	return nil
}
