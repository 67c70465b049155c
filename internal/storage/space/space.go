package space

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// Config is what a Space is made of.
type Config struct {
	// Dir is a directory of the file system.
	Dir string
	// FloorBytes and FloorInodes must stay free. 0 means the default: 5% of the file system, at
	// most 1 GiB, and 1% of its inodes, at most 10,000.
	FloorBytes  int64
	FloorInodes uint64
}

// Space is a file system with a floor. Its methods may be called from several goroutines.
type Space struct{ cfg Config }

// New returns the space of a file system.
func New(cfg Config) *Space { return &Space{cfg} }

// In returns the space of a directory that may be on another file system, with the same floor.
func (s *Space) In(dir string) *Space {
	cfg := s.cfg
	cfg.Dir = dir
	return New(cfg)
}

// interval is the time between two looks at the file system during a long write.
const interval = 50 * time.Millisecond

// freeing says how to free space. Each of the commands works on a full disk.
const freeing = "free disk space: hortus gc, hortus snapshot rm ID, hortus workspace rm NAME; hortus df shows the usage"

// Check refuses a write of about need bytes that would not leave the floor free. what names what
// is written.
func (s *Space) Check(what string, need int64) error {
	if s == nil {
		return nil
	}
	if why := s.Short(need); why != "" {
		return api.Errorf(api.KindExhausted, "no space left on the disk of %s for %s: %s", s.cfg.Dir, what, why).WithHint(freeing)
	}
	return nil
}

// Short returns what the file system lacks for need more bytes; "" if it has space for them and
// for the floor.
func (s *Space) Short(need int64) string {
	var st unix.Statfs_t
	if err := unix.Statfs(s.cfg.Dir, &st); err != nil {
		return "cannot read the free space of the host's disk: " + err.Error()
	}
	return s.ShortOf(&st, need)
}

// ShortOf is Short for a state of the file system.
func (s *Space) ShortOf(st *unix.Statfs_t, need int64) string {
	floor, inodes := s.cfg.FloorBytes, s.cfg.FloorInodes
	if floor <= 0 {
		floor = min(int64(st.Blocks)*st.Bsize/20, 1<<30)
	}
	if inodes == 0 {
		inodes = min(st.Files/100, 10_000)
	}
	free, need := int64(st.Bavail)*st.Bsize, max(need, 0)
	switch {
	case free-need < floor && need > 0:
		return fmt.Sprintf("the host's disk has %d bytes free, about %d are needed, and %d must stay free", free, need, floor)
	case free < floor:
		return fmt.Sprintf("the host's disk has %d bytes free, and %d must stay free", free, floor)
	case st.Files > 0 && st.Ffree < inodes:
		return fmt.Sprintf("the host's disk has %d inodes free, and %d must stay free", st.Ffree, inodes)
	}
	return ""
}

// Guard calls write, unless the floor is reached already, with a context that ends when the floor is
// reached. Then the error is that of Check.
func (s *Space) Guard(ctx context.Context, what string, write func(ctx context.Context) error) error {
	if s == nil {
		return write(ctx)
	}
	if err := s.Check(what, 0); err != nil {
		return err
	}
	guarded, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-guarded.Done():
				return
			case <-tick.C:
				if err := s.Check(what, 0); err != nil {
					cancel(err)
				}
			}
		}
	}()
	err := write(guarded)
	cancel(nil)
	<-ended
	if err == nil || ctx.Err() != nil {
		return err
	}
	if full := context.Cause(guarded); !errors.Is(full, context.Canceled) {
		return full
	}
	if errors.Is(err, unix.ENOSPC) { // between two looks
		return api.Errorf(api.KindExhausted, "no space left on the disk of %s for %s: %w", s.cfg.Dir, what, err).WithHint(freeing)
	}
	return err
}
