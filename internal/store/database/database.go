package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// DB is an open database: it implements store.Store. Its methods may be called from several
// goroutines.
type DB struct {
	dialect *dialect
	// write and read are pools of connections. SQLite has one connection that writes, whose transactions take the write
	// lock at their begin, and others that only read; Postgres has one pool for both.
	write, read pool
	// lease has connections for the renewals of leases, which must not wait for others: a node that is late loses its work. It is write for SQLite.
	lease   pool
	ahead   *ahead   // nil without SQLite.Ahead
	reserve *reserve // nil without SQLite.Reserve
	// file is the path of a file, and id the identity of a database on a server.
	file, id string
	// clock is that of a server; nil for a file, whose clock is that of this machine.
	clock *clock
	// sealer encrypts secret values of rows.
	sealer *sealer

	// The rows that have a start, a state and a document.
	sandboxes    table[api.Sandbox, api.SandboxID]
	execs        table[api.Exec, api.ExecID]
	tasks        table[api.Task, api.TaskID]
	workspaces   table[api.Workspace, api.WorkspaceID]
	snapshots    table[api.Snapshot, api.SnapshotID]
	repositories table[api.Repository, api.RepositoryID]
	keys         table[api.Key, api.KeyID]

	// The statements that run often.
	appendEvent, readEvents          statement
	insertExec, updateExec           statement
	insertSandbox, updateSandboxSame statement
	updatePlan, putItem, dropItems   statement
	insertEgress, insertSecretUse    statement
}

var _ store.Store = (*DB)(nil)

// Place says where the rows are, without credentials.
func (db *DB) Place() string { return db.dialect.place }

// ID identifies a database on a server, whatever its address is; it is empty for a file.
func (db *DB) ID() string { return db.id }

// describeTables sets the fields about tables. db.ahead and db.sealer are set already.
func (db *DB) describeTables() {
	db.sandboxes, db.execs, db.tasks = sandboxTable(db), execTable(db), taskTable(db)
	db.workspaces, db.snapshots, db.repositories, db.keys = workspaceTable(db), snapshotTable(db), repositoryTable(db), keyTable(db)
}

// prepare makes the statements that run often. db.read and db.write are set already.
func (db *DB) prepare(ctx context.Context) error {
	for s, query := range db.statements() {
		s.pool, s.text = db.write, db.dialect.adapt(query)
		if s == &db.readEvents {
			s.pool = db.read
		}
		if !db.dialect.prepared {
			continue
		}
		var err error
		if s.prepared, err = s.pool.PrepareContext(ctx, s.text); err != nil {
			return wrapError(ctx, err, "open %s", db.dialect.place)
		}
	}
	return nil
}

// statements are the ones that run often, with their texts.
func (db *DB) statements() map[*statement]string {
	return map[*statement]string{
		&db.appendEvent: appendEventSQL, &db.readEvents: readEventsSQL,
		&db.insertExec: insertExecSQL, &db.updateExec: updateExecSQL,
		&db.insertSandbox: insertSandboxSQL, &db.updateSandboxSame: updateSandboxSameSQL,
		&db.updatePlan: updatePlanSQL, &db.putItem: putItemSQL, &db.dropItems: dropItemsSQL,
		&db.insertEgress: insertEgressSQL, &db.insertSecretUse: insertSecretUseSQL,
	}
}

// Close waits for the calls that are running and closes the database. Later calls
// fail with KindUnavailable.
func (db *DB) Close() error {
	// The writer is closed last: the last connection of SQLite merges the write-ahead log into
	// the file, which a read-only one cannot.
	err := db.ahead.close()
	for s := range db.statements() {
		if s.prepared != nil {
			err = errors.Join(err, s.prepared.Close())
		}
	}
	err = errors.Join(err, db.read.Close(), db.write.Close(), db.lease.Close(), db.reserve.close())
	if err != nil {
		return wrapError(context.Background(), err, "close the database")
	}
	return nil
}

// statement is one that runs often. For SQLite it is prepared: parsing it costs as much as running it. For Postgres the
// connection does that with all statements ([connector]).
type statement struct {
	text     string
	pool     pool
	prepared *sql.Stmt
}

// exec runs the statement in a transaction, or by itself if tx is nil.
func (s *statement) exec(ctx context.Context, tx *sql.Tx, args ...any) (sql.Result, error) {
	switch {
	case s.prepared == nil && tx == nil:
		return s.pool.ExecContext(ctx, s.text, args...)
	case s.prepared == nil:
		return tx.ExecContext(ctx, s.text, args...)
	case tx == nil:
		return s.prepared.ExecContext(ctx, args...)
	}
	return tx.StmtContext(ctx, s.prepared).ExecContext(ctx, args...)
}

// queryRow runs a statement that returns one row.
func (s *statement) queryRow(ctx context.Context, tx *sql.Tx, args ...any) *sql.Row {
	switch {
	case s.prepared == nil && tx == nil:
		return s.pool.QueryRowContext(ctx, s.text, args...)
	case s.prepared == nil:
		return tx.QueryRowContext(ctx, s.text, args...)
	case tx == nil:
		return s.prepared.QueryRowContext(ctx, args...)
	}
	return tx.StmtContext(ctx, s.prepared).QueryRowContext(ctx, args...)
}

// query runs a statement that returns rows by itself.
func (s *statement) query(ctx context.Context, args ...any) (*sql.Rows, error) {
	if s.prepared == nil {
		return s.pool.QueryContext(ctx, s.text, args...)
	}
	return s.prepared.QueryContext(ctx, args...)
}

// toMicros returns an instant as it is stored: nil for the zero time.
func toMicros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// nullable returns nil for an empty identifier, which is stored as NULL.
func nullable[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

// names returns states as text.
func names[S ~string](states ...S) (all []string) {
	for _, s := range states {
		all = append(all, string(s))
	}
	return all
}
