package database

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"hortus.dev/api"
)

// reserveSuffix is appended to the name of the database.
const reserveSuffix = "-reserve"

// reserveParts is the number of writes that a full disk leaves to a reserve: each takes one part of it.
// If all were released at once, a program that writes all the time could take it before SQLite does.
const reserveParts = 8

// reserve is a file beside the database that occupies space on its disk. On a full disk, writes
// that end, remove or account for something release a part of it and run again; writes that add
// rows are refused until all of it is allocated again. A nil reserve has no space.
type reserve struct {
	file *os.File
	size int64
	log  *slog.Logger

	mu   sync.Mutex
	held atomic.Int64 // bytes that are allocated
}

// openReserve allocates the file, as much as the disk has space for. On a disk that is full
// already it releases a part, which the files that SQLite makes need.
func openReserve(path string, size int64, log *slog.Logger) (*reserve, error) {
	if size <= 0 {
		return nil, nil
	}
	file, err := os.OpenFile(path+reserveSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the reserve of the database: %w", err)
	}
	r := &reserve{file: file, size: size, log: log}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &st); err != nil {
		file.Close()
		return nil, api.Errorf(api.KindInternal, "open the reserve of the database: %w", err)
	}
	r.held.Store(min(st.Size, st.Blocks*512, size))
	r.restore()
	if free, err := r.free(); err == nil && free < size/reserveParts {
		r.release()
	}
	return r, nil
}

func (r *reserve) close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// free returns the free bytes of the disk.
func (r *reserve) free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(r.file.Fd()), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// release frees one part of the space. It returns false if none is left.
func (r *reserve) release() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held.Load()
	if held == 0 {
		return false
	}
	rest := max(0, held-r.size/reserveParts)
	if err := r.file.Truncate(rest); err != nil {
		r.log.Error("cannot release the reserve of the database", "error", err)
		return false
	}
	r.log.Warn("the disk of the database is full: a part of the reserve was released", "bytes", held-rest, "left", rest)
	r.held.Store(rest)
	return true
}

// restore allocates what was released, if the disk has one part more than that. It reports
// whether all is allocated.
func (r *reserve) restore() bool {
	if r == nil || r.held.Load() == r.size {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.held.Load()
	free, err := r.free()
	if err != nil || free < r.size-held+r.size/reserveParts {
		return held == r.size
	}
	err = syscall.Fallocate(int(r.file.Fd()), 0, held, r.size-held)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		_, err = r.file.WriteAt(make([]byte, r.size-held), held)
	}
	if err != nil {
		r.log.Warn("cannot allocate the reserve of the database", "error", err)
		_ = r.file.Truncate(held)
		return false
	}
	r.held.Store(r.size)
	return true
}

// relieved runs a write that frees space or ends something, and again after each part of the reserve
// that it needs.
func (db *DB) relieved(write func() error) error {
	for {
		err := repeated(write)
		if failureOf(err) != full || !db.reserve.release() {
			return err
		}
	}
}

// execRelieved runs a statement as relieved does. It may run twice.
func (db *DB) execRelieved(ctx context.Context, run func() (sql.Result, error)) (r sql.Result, err error) {
	err = db.write.outage.patiently(ctx, always, func() error {
		return db.relieved(func() error { r, err = run(); return err })
	})
	return r, err
}

// mayGrow refuses a write that adds a row while the disk is so full that the reserve is in use: what
// is left of it is for writes that free space.
func (db *DB) mayGrow(what string) error {
	if db.reserve.restore() {
		return nil
	}
	return api.Errorf(api.KindExhausted, "store %s: the disk of the database is full", what).WithHint("%s", freeSpace)
}

// freeSpace says how to free space.
const freeSpace = "free space on the disk of the database: hortus gc, hortus snapshot rm ID, hortus workspace rm NAME"
