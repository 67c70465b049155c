package database

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
)

// aheadSuffix is appended to the name of a database in a file.
const aheadSuffix = "-ahead"

// openAhead replays the file of an earlier process and empties it.
func openAhead(ctx context.Context, db *DB, path string, log *slog.Logger) (*ahead, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open rows stored ahead: %w", err)
	}
	a := &ahead{
		db: db, log: log, shared: db.id != "", header: aheadMagic,
		file: file, position: map[rowKey]int{}, owners: map[string]bool{}, sandboxes: map[string]*liveSandbox{},
	}
	if a.shared {
		a.header = "hortus ahead 1 of database " + db.id + "\n"
	}
	err = lockExclusive(ctx, file)
	if err == nil {
		err = a.replay(ctx)
	}
	if err == nil {
		err = db.relieved(a.writeHeader)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	a.timer = time.AfterFunc(time.Hour, a.flushLater)
	a.timer.Stop()
	return a, nil
}

// lockTimeout is the timeout for the file's lock. The child of a process that was killed
// may hold it until it executes its program.
const lockTimeout = 5 * time.Second

// lockExclusive locks the file for the life of the process.
func lockExclusive(ctx context.Context, file *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return api.Errorf(api.KindInternal, "lock rows stored ahead: %w", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return api.Errorf(api.KindConflict, "another process has locked %s", file.Name()).
				WithHint("stop the daemon that uses this data directory")
		}
	}
}

// writeHeader empties the file and writes its header.
func (a *ahead) writeHeader() error {
	err := a.file.Truncate(0)
	if err == nil {
		_, err = a.file.WriteAt([]byte(a.header), 0)
	}
	a.size = int64(len(a.header))
	if err != nil {
		return fileError(err)
	}
	return nil
}

// truncate removes the rows that the database has from the file. If that fails, a replay
// ignores them; the next flush tries again. The caller holds the lock.
func (a *ahead) truncate() {
	if a.file.Truncate(int64(len(a.header))) == nil {
		a.size, a.broken = int64(len(a.header)), false
	}
}

// appendRecord appends a row to the file. After an error nothing of the row is left. The
// caller holds the lock.
func (a *ahead) appendRecord(r record) error {
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
	return fileError(err)
}

// close flushes all rows and empties the file. If the flush fails, they stay in the file
// for the next process.
func (a *ahead) close() error {
	if a == nil {
		return nil
	}
	err := a.flush(context.Background())
	a.mu.Lock()
	file := a.file
	a.file = nil
	if a.scheduled && a.timer.Stop() {
		a.scheduled = false
		a.timerRuns.Done()
	}
	a.mu.Unlock()
	a.timerRuns.Wait()
	if file == nil {
		return nil
	}
	// Rows that were stored during the first flush.
	if serr := a.flush(context.Background()); err == nil {
		err = serr
	}
	if err == nil {
		err = file.Truncate(0)
	}
	return errors.Join(err, file.Close())
}

// replay writes the rows that an earlier process left in the file to the database. Rows
// that the database has already are as new or newer there.
func (a *ahead) replay(ctx context.Context) error {
	info, err := a.file.Stat()
	if err != nil {
		return api.Errorf(api.KindInternal, "read rows stored ahead: %w", err)
	}
	left := info.Size() - int64(len(a.header))
	if left <= 0 {
		return nil // no row, of whatever version and database
	}
	in := bufio.NewReader(a.file)
	header := make([]byte, len(a.header))
	if _, err := io.ReadFull(in, header); err != nil {
		return api.Errorf(api.KindInternal, "read rows stored ahead: %w", err)
	}
	if string(header) != a.header {
		return api.Errorf(api.KindConflict, "%s was not written by this version of hortus, or for another database", a.file.Name()).
			WithHint("start the version that wrote it once, with its database; its daemon stores these rows there when it stops")
	}
	var rows []record
	for {
		r, n, err := readRecord(in, left)
		if err == io.EOF {
			break
		}
		if err == errIncomplete {
			a.log.Warn("ignoring an incomplete row of an earlier daemon; it was never confirmed", "bytes", left)
			break
		}
		if err != nil {
			return err
		}
		left -= n
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err = a.write(ctx, "rows of an earlier daemon", rows); err == nil {
		a.log.Info("replayed rows of an earlier daemon", "rows", len(rows))
	}
	return err
}

// fileError sets the kind of an error of the file.
func fileError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return api.Errorf(api.KindExhausted, "store a row: %w", err).WithHint("%s", freeSpace)
	}
	return api.Errorf(api.KindInternal, "store a row: %w", err)
}

// aheadMagic is the header of the file. Increment its number when the values of a
// statement change.
const aheadMagic = "hortus ahead 1\n"

// The statements that can be in the file, by their numbers there.
const (
	insertSandboxOp byte = 1 + iota
	updateSandboxOp
	insertExecOp
	updateExecOp
	putExecOp // one of these two, in a database that other daemons use, too
)

// recordArgs is the number of values of each statement.
var recordArgs = map[byte]int{insertSandboxOp: 8, updateSandboxOp: 8, insertExecOp: 6, updateExecOp: 6, putExecOp: 7}

// putExecSQL stores a command, or its next state unless it is final, while its sandbox is not final and the owner's ($7) who wrote the row.
const putExecSQL = `
	INSERT INTO exec (id, sandbox, owner, host, lease_epoch, state, started_at, ended_at, doc)
	SELECT $1, id, owner, host, lease_epoch, $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), $6 FROM sandbox
	WHERE id = $2 AND owner IS NOT DISTINCT FROM $7 AND state NOT IN ('ended', 'lost') FOR SHARE
	ON CONFLICT (id) DO UPDATE SET state = excluded.state, started_at = excluded.started_at, ended_at = excluded.ended_at, doc = excluded.doc
	WHERE exec.state = excluded.state OR exec.state NOT IN ('exited', 'unknown')`

// record is a statement with its values: nil, int64 or string.
type record struct {
	op   byte
	args []any
}

func (r record) id() string { return r.args[0].(string) }

// sandbox returns the id of the row's sandbox.
func (r record) sandbox() string {
	if r.op == insertSandboxOp || r.op == updateSandboxOp {
		return r.id()
	}
	s, _ := r.args[1].(string)
	return s
}

// rowKey identifies a row.
type rowKey struct {
	exec bool
	id   string
}

func (r record) key() rowKey { return rowKey{r.op >= insertExecOp, r.id()} }

// isFinal reports whether the row of a sandbox is final.
func (r record) isFinal() bool {
	return r.args[2] == string(api.SandboxEnded) || r.args[2] == string(api.SandboxLost)
}

func (r record) kind() string {
	if r.op == insertSandboxOp || r.op == updateSandboxOp {
		return "sandbox"
	}
	return "exec"
}

// errUnchanged means that a statement changed no row.
var errUnchanged = errors.New("the row does not exist or is final")

// run executes the statement in a transaction.
func (r record) run(ctx context.Context, tx *sql.Tx, db *DB) error {
	s := map[byte]*statement{insertSandboxOp: &db.insertSandbox, updateSandboxOp: &db.updateSandboxSame,
		insertExecOp: &db.insertExec, updateExecOp: &db.updateExec}[r.op]
	res, err := s.exec(ctx, tx, r.args...)
	if err == nil && !changed(res) {
		err = errUnchanged
	}
	return err
}

// isRefusal reports whether the database refused the row, after which the transaction can
// continue.
func (r record) isRefusal(err error) bool {
	return err == errUnchanged || code(err)&0xff == sqlite3.SQLITE_CONSTRAINT
}

// The forms of a value.
const (
	argNil byte = iota
	argInt
	argString
)

// recordHeader is the length of a record's header: its length and its checksum, four
// bytes each.
const recordHeader = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append encodes the record.
func (r record) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHeader)...)
	b = append(b, r.op)
	for _, arg := range r.args {
		switch v := arg.(type) {
		case int64:
			b = binary.AppendVarint(append(b, argInt), v)
		case string:
			b = binary.AppendUvarint(append(b, argString), uint64(len(v)))
			b = append(b, v...)
		default:
			b = append(b, argNil)
		}
	}
	body := b[start+recordHeader:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// errIncomplete means that the file ends in an incomplete record: its process or host
// died while it was written.
var errIncomplete = errors.New("the last record is incomplete")

// readRecord reads the next record of a file that has left more bytes. It returns io.EOF
// at the end.
func readRecord(r io.Reader, left int64) (rec record, n int64, err error) {
	var head [recordHeader]byte
	if left == 0 {
		return rec, 0, io.EOF
	}
	if left < recordHeader {
		return rec, 0, errIncomplete
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return rec, 0, err
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > left-recordHeader {
		return rec, 0, errIncomplete
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return rec, 0, err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return rec, 0, errIncomplete
	}
	rec, err = parseRecord(body)
	return rec, recordHeader + size, err
}

// parseRecord decodes a record without its header.
func parseRecord(b []byte) (record, error) {
	damaged := api.Errorf(api.KindInternal, "a row stored ahead is damaged")
	if len(b) == 0 || recordArgs[b[0]] == 0 {
		return record{}, damaged
	}
	r := record{op: b[0]}
	b = b[1:]
	for range recordArgs[r.op] {
		if len(b) == 0 {
			return record{}, damaged
		}
		form := b[0]
		b = b[1:]
		switch form {
		case argNil:
			r.args = append(r.args, nil)
		case argInt:
			v, n := binary.Varint(b)
			if n <= 0 {
				return record{}, damaged
			}
			r.args, b = append(r.args, v), b[n:]
		case argString:
			v, n := binary.Uvarint(b)
			if n <= 0 || v > uint64(len(b)-n) {
				return record{}, damaged
			}
			r.args, b = append(r.args, string(b[n:n+int(v)])), b[n+int(v):]
		default:
			return record{}, damaged
		}
	}
	if _, ok := r.args[0].(string); !ok || len(b) > 0 {
		return record{}, damaged
	}
	return r, nil
}
