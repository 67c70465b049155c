package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	sqlite3 "modernc.org/sqlite/lib"

	"hortus.dev/api"
)

// aheadMagic begins the file of rows that were stored ahead. Its number goes up
// when the values of a statement change.
const aheadMagic = "hortus ahead 1\n"

// The statements that rows can be stored ahead of. Their numbers are in the file.
const (
	insertSandboxOp byte = 1 + iota
	updateSandboxOp
	insertExecOp
	updateExecOp
)

// recordArgs is how many values each statement has.
var recordArgs = map[byte]int{insertSandboxOp: 8, updateSandboxOp: 8, insertExecOp: 6, updateExecOp: 6}

// record is a statement with its values: nil, int64 or string.
type record struct {
	op   byte
	args []any
}

func (r record) id() string { return r.args[0].(string) }

// sandbox is the sandbox that a row is or belongs to.
func (r record) sandbox() string {
	if r.op == insertSandboxOp || r.op == updateSandboxOp {
		return r.id()
	}
	s, _ := r.args[1].(string)
	return s
}

// rowKey names a row.
type rowKey struct {
	exec bool
	id   string
}

func (r record) key() rowKey { return rowKey{r.op >= insertExecOp, r.id()} }

func (r record) what() string {
	if r.op == insertSandboxOp || r.op == updateSandboxOp {
		return "sandbox"
	}
	return "exec"
}

// errUnchanged says that a statement found no row to change.
var errUnchanged = errors.New("there is no such row, or it is final")

// run executes the statement in a transaction.
func (r record) run(ctx context.Context, tx *sql.Tx, db *database) error {
	stmt := map[byte]*sql.Stmt{insertSandboxOp: db.insertSandbox, updateSandboxOp: db.updateSandboxSame,
		insertExecOp: db.insertExec, updateExecOp: db.updateExec}[r.op]
	res, err := tx.StmtContext(ctx, stmt).ExecContext(ctx, r.args...)
	if err == nil && !changed(res) {
		err = errUnchanged
	}
	return err
}

// refused says whether an error of run is about the row, and not about the
// database. The transaction goes on after it.
func (r record) refused(err error) bool {
	return err == errUnchanged || code(err)&0xff == sqlite3.SQLITE_CONSTRAINT
}

// The forms of a value.
const (
	argNil byte = iota
	argInt
	argString
)

// recordHead is the length of what stands before a record's bytes: their number
// and their checksum.
const recordHead = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append writes the record.
func (r record) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
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
	body := b[start+recordHead:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(body, castagnoli))
	return b
}

// errTorn says that a file ends in what is no whole record: what was being
// written when its process or its host died.
var errTorn = errors.New("the last record is not whole")

// readRecord reads the next record of a file that has left bytes more. It gives
// io.EOF at the end.
func readRecord(r io.Reader, left int64) (rec record, n int64, err error) {
	var head [recordHead]byte
	if left == 0 {
		return rec, 0, io.EOF
	}
	if left < recordHead {
		return rec, 0, errTorn
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return rec, 0, err
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size > left-recordHead {
		return rec, 0, errTorn
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return rec, 0, err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return rec, 0, errTorn
	}
	rec, err = parseRecord(body)
	return rec, recordHead + size, err
}

// parseRecord reads a record's bytes.
func parseRecord(b []byte) (record, error) {
	damaged := api.Errorf(api.KindInternal, "a row that was stored ahead is damaged")
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
