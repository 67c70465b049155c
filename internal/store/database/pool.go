package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"hortus.dev/internal/store"
)

// pool is a pool of connections. If its server cannot be reached, its statements wait and run again, unless the server may have
// carried them out: who knows that the same statement may run twice uses patiently.
type pool struct {
	*sql.DB
	outage *outage // nil for a database without a server
}

const (
	// maxOutage is how long statements wait for a server, from the first that could not reach it: a restart, or another server that
	// takes over, is shorter. After that each statement is tried once.
	maxOutage = 20 * time.Second
	// The pauses between attempts.
	firstPause, maxPause = 20 * time.Millisecond, 500 * time.Millisecond
)

// outage is the time in which a server cannot be reached.
type outage struct {
	mu    sync.Mutex
	began time.Time // zero if the server answered last
}

// patiently calls try again as long as its error says that the server cannot be reached, again allows it, and the outage is not too
// long. A context of [store.Waiting] waits for a long one, too.
func (o *outage) patiently(ctx context.Context, again func(error) bool, try func() error) error {
	until := store.WaitsUntil(ctx)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := try()
		if o == nil || ctx.Err() != nil {
			return err
		}
		if failureOf(err) != unreachable {
			o.ended()
			return err
		}
		var shorter <-chan struct{} // the wait is for a short outage from then on
		if until != nil && until.Err() == nil {
			shorter = until.Done()
		}
		if long := o.lasts() > maxOutage; long && shorter == nil || !again(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-shorter: // try again at once
			timer.Stop()
		}
	}
}

func (o *outage) ended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = time.Time{}
}

// lasts returns how long the server could not be reached, from now if it could.
func (o *outage) lasts() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = time.Now()
	}
	return time.Since(o.began)
}

// always is for what may run twice.
func always(error) bool { return true }

// undone reports whether an error of a statement says that the server did not carry it out. It is false if the connection
// ended before the answer.
func undone(err error) bool {
	if errors.As(err, new(*connectError)) {
		return true
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code != "57P02" && !strings.HasPrefix(server.Code, "08") // a crash may follow a commit
	}
	return errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err)
}

// inDoubt reports whether nobody knows if a statement, or the commit of a transaction, was carried out.
func inDoubt(err error) bool { return failureOf(err) == unreachable && !undone(err) }

// reads reports whether a statement only reads: it may run twice.
func reads(query string) bool { return strings.HasPrefix(strings.TrimSpace(query), "SELECT") }

// ExecContext implements runner.
func (p pool) ExecContext(ctx context.Context, query string, args ...any) (r sql.Result, err error) {
	err = p.outage.patiently(ctx, undone, func() error { r, err = p.DB.ExecContext(ctx, query, args...); return err })
	return r, err
}

// QueryContext implements runner.
func (p pool) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	again := undone
	if reads(query) {
		again = always
	}
	err = p.outage.patiently(ctx, again, func() error { rows, err = p.DB.QueryContext(ctx, query, args...); return err })
	return rows, err
}

// QueryRowContext implements runner.
func (p pool) QueryRowContext(ctx context.Context, query string, args ...any) (row *sql.Row) {
	again := undone
	if reads(query) {
		again = always
	}
	_ = p.outage.patiently(ctx, again, func() error { row = p.DB.QueryRowContext(ctx, query, args...); return row.Err() })
	return row
}

// insertOnce runs a statement that inserts a row with a key that nobody else makes: one that exists after an attempt in doubt is its own.
func (db *DB) insertOnce(ctx context.Context, insert func() error) error {
	doubt := false
	return db.write.outage.patiently(ctx, always, func() error {
		err := insert()
		if doubt && failureOf(err) == taken && isOwnKey(err) {
			return nil
		}
		doubt = doubt || inDoubt(err)
		return err
	})
}

// isOwnKey reports whether the key that is taken is the identifier of a row, not a name that another row has.
func isOwnKey(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (strings.HasSuffix(server.ConstraintName, "_id_key") || strings.HasSuffix(server.ConstraintName, "_pkey"))
}
