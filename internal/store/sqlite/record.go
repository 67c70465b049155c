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

// aheadMagic is the header of the file. Increment its number when the values of a
// statement change.
const aheadMagic = "hortus ahead 1\n"

// The statements that can be in the file, by their numbers there.
const (
	insertSandboxOp byte = 1 + iota
	updateSandboxOp
	insertExecOp
	updateExecOp
)

// recordArgs is the number of values of each statement.
var recordArgs = map[byte]int{insertSandboxOp: 8, updateSandboxOp: 8, insertExecOp: 6, updateExecOp: 6}

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

func (r record) kind() string {
	if r.op == insertSandboxOp || r.op == updateSandboxOp {
		return "sandbox"
	}
	return "exec"
}

// errUnchanged means that a statement changed no row.
var errUnchanged = errors.New("the row does not exist or is final")

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
