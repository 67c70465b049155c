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
	// Ledger counts what each account stores; nil means that accounts have no ceiling.
	Ledger *Ledger
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

// Ledger returns the ledger of the accounts, nil if there is none.
func (s *Space) Ledger() *Ledger {
	if s == nil {
		return nil
	}
	return s.cfg.Ledger
}

// CheckOf is Check for a write of an account, which has its own ceiling too.
func (s *Space) CheckOf(ctx context.Context, account, what string, need int64) error {
	if err := s.Ledger().Check(ctx, account, what, need); err != nil {
		return err
	}
	return s.Check(what, need)
}

// ReserveOf is CheckOf for a long write. The bytes count for the account until done is called, which is not nil.
func (s *Space) ReserveOf(ctx context.Context, account, what string, need int64) (done func(), err error) {
	if err := s.Check(what, need); err != nil {
		return func() {}, err
	}
	return s.Ledger().Reserve(ctx, account, what, need)
}

// Floor returns the bytes and inodes of a file system that must stay free.
func (s *Space) Floor(st *unix.Statfs_t) (bytes int64, inodes uint64) {
	bytes, inodes = s.cfg.FloorBytes, s.cfg.FloorInodes
	if bytes <= 0 {
		bytes = min(int64(st.Blocks)*st.Bsize/20, 1<<30)
	}
	if inodes == 0 {
		inodes = min(st.Files/100, 10_000)
	}
	return bytes, inodes
}

// Level returns which part of the floor is free, of bytes or inodes, whichever is less; 1 or more is above the floor.
func (s *Space) Level(st *unix.Statfs_t) float64 {
	bytes, inodes := s.Floor(st)
	level := float64(int64(st.Bavail)*st.Bsize) / float64(max(bytes, 1))
	if st.Files > 0 && inodes > 0 {
		level = min(level, float64(st.Ffree)/float64(inodes))
	}
	return level
}

// ShortOf is Short for a state of the file system.
func (s *Space) ShortOf(st *unix.Statfs_t, need int64) string {
	floor, inodes := s.Floor(st)
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
