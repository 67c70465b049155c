package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"hortus.dev/api"
)

// aheadSuffix ends the name of the file that rows are stored in first.
const aheadSuffix = "-ahead"

// openAhead applies what an earlier process left in the file and opens it anew.
func openAhead(ctx context.Context, db *database, path string, log *slog.Logger) (*ahead, error) {
	file, err := os.OpenFile(path+aheadSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the rows that were stored ahead: %w", err)
	}
	a := &ahead{db: db, log: log, file: file, place: map[rowKey]int{}, owners: map[string]bool{}, boxes: map[string]*box{}}
	err = alone(ctx, file)
	if err == nil {
		err = a.replay(ctx)
	}
	if err == nil {
		err = a.begin()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	a.timer = time.AfterFunc(time.Hour, a.run)
	a.timer.Stop()
	return a, nil
}

// aloneWithin bounds the wait for the file's lock. Of a process that was killed a
// child may hold it, until it executes its program.
const aloneWithin = 5 * time.Second

// alone takes the file's lock, which ends with the process.
func alone(ctx context.Context, file *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, aloneWithin)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return api.Errorf(api.KindInternal, "lock the rows that are stored ahead: %w", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return api.Errorf(api.KindConflict, "another process stores rows ahead of this database: it holds %s", file.Name()).
				WithHint("stop the daemon that has this data directory")
		}
	}
}

// begin writes the head of an empty file.
func (a *ahead) begin() error {
	err := a.file.Truncate(0)
	if err == nil {
		_, err = a.file.WriteAt([]byte(aheadMagic), 0)
	}
	a.size = int64(len(aheadMagic))
	if err != nil {
		return fileFailed(err)
	}
	return nil
}

// clear empties the file of rows that the database has. Where that fails they are
// there once more, which does no harm, and it is tried again after the next ones.
// The caller holds the lock.
func (a *ahead) clear() {
	if a.file.Truncate(int64(len(aheadMagic))) == nil {
		a.size, a.broken = int64(len(aheadMagic)), false
	}
}

// write appends a row to the file. A row that fails is not there: neither for a
// later process nor before the next one. The caller holds the lock.
func (a *ahead) write(r record) error {
	a.buf = r.append(a.buf[:0])
	n, err := a.file.WriteAt(a.buf, a.size)
	if cap(a.buf) > 64<<10 {
		a.buf = nil
	}
	if err == nil {
		a.size += int64(n)
		return nil
	}
	if terr := a.file.Truncate(a.size); terr != nil {
		a.broken = true
	}
	return fileFailed(err)
}

// close has everything in the database, which leaves the file empty. What does not
// get there is in the file for the next process.
func (a *ahead) close() error {
	if a == nil {
		return nil
	}
	err := a.settle(context.Background())
	a.mu.Lock()
	file := a.file
	a.file = nil
	if a.armed && a.timer.Stop() {
		a.armed = false
		a.wg.Done()
	}
	a.mu.Unlock()
	a.wg.Wait()
	if file == nil {
		return nil
	}
	// What was stored meanwhile.
	if serr := a.settle(context.Background()); err == nil {
		err = serr
	}
	if err == nil {
		err = file.Truncate(0)
	}
	return errors.Join(err, file.Close())
}

// replay puts what an earlier process stored ahead into the database. A part of
// it, or all, may be there already: such rows are as new or newer there.
func (a *ahead) replay(ctx context.Context) error {
	info, err := a.file.Stat()
	if err != nil {
		return api.Errorf(api.KindInternal, "read the rows that were stored ahead: %w", err)
	}
	left := info.Size()
	in := bufio.NewReader(a.file)
	magic := make([]byte, min(left, int64(len(aheadMagic))))
	if _, err := io.ReadFull(in, magic); err != nil {
		return api.Errorf(api.KindInternal, "read the rows that were stored ahead: %w", err)
	}
	if string(magic) != aheadMagic[:len(magic)] {
		return api.Errorf(api.KindConflict, "%s was not written by this version of hortus", a.file.Name()).
			WithHint("start the version that wrote it once; its daemon stores these rows in the database when it stops")
	}
	left -= int64(len(magic))
	rows := 0
	err = a.db.inTx(ctx, "rows of an earlier daemon", func(tx *sql.Tx) error {
		for {
			r, n, err := readRecord(in, left)
			if err == io.EOF {
				return nil
			}
			if err == errTorn {
				a.log.Warn("the last row that an earlier daemon was storing is not whole; nobody was told that it is stored", "bytes", left)
				return nil
			}
			if err != nil {
				return err
			}
			left -= n
			rows++
			if err := r.run(ctx, tx, a.db); err != nil && !r.refused(err) {
				return failed(ctx, err, "store %s %s", r.what(), r.id())
			}
		}
	})
	if err == nil && rows > 0 {
		a.log.Info("rows that an earlier daemon had stored ahead are in the database", "rows", rows)
	}
	return err
}

// fileFailed gives an error of the file its kind.
func fileFailed(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return api.Errorf(api.KindExhausted, "store a row: %w", err).WithHint("free space on the disk of the database")
	}
	return api.Errorf(api.KindInternal, "store a row: %w", err)
}
