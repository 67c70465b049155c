package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"hortus.dev/internal/store/rowjson"
)

func portOf(c *pgx.ConnConfig) string { return strconv.Itoa(int(c.Port)) }

// connector makes connections to a server whose values are those of SQLite: text keeps every byte, although text of Postgres
// is Unicode without the character 0, what is true is 1, and an empty blob is read as nil.
//
// Each statement is one message to the server. The server parses and plans it once for each connection. Behind a pooler, where
// the next transaction may have another connection of the server, it does so each time, and a connection remembers nothing.
type connector struct {
	cfg            *pgx.ConnConfig
	direct, pooled driver.Connector
	pooler         *atomic.Bool // if one was found
}

func newConnector(cfg *pgx.ConnConfig) connector {
	direct, pooled := cfg.Copy(), cfg.Copy()
	direct.DefaultQueryExecMode, direct.StatementCacheCapacity = pgx.QueryExecModeCacheStatement, preparedStatements
	pooled.DefaultQueryExecMode, pooled.StatementCacheCapacity = pgx.QueryExecModeExec, 0
	direct.DescriptionCacheCapacity, pooled.DescriptionCacheCapacity = 0, 0
	return connector{cfg: cfg, direct: stdlib.GetConnector(*direct), pooled: stdlib.GetConnector(*pooled), pooler: new(atomic.Bool)}
}

// preparedStatements bounds what the server keeps for a connection. Those that run often are fewer; of the others, which are
// made of conditions, the ones that ran last are kept.
const preparedStatements = 100

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if !c.pooler.Load() {
		direct, err := c.direct.Connect(ctx)
		if err != nil {
			return nil, &connectError{c.cfg, err}
		}
		alone, err := isDirect(ctx, direct.(*stdlib.Conn).Conn())
		if alone {
			return conn{direct.(*stdlib.Conn)}, nil
		}
		direct.Close()
		if err != nil {
			return nil, err
		}
		c.pooler.Store(true)
	}
	pooled, err := c.pooled.Connect(ctx)
	if err != nil {
		return nil, &connectError{c.cfg, err}
	}
	return conn{pooled.(*stdlib.Conn)}, nil
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.direct.Driver() }

// isDirect reports whether a connection is one of the server, by the process that serves it: a pooler gives its clients
// numbers of its own, since it passes on which statement is to be canceled.
func isDirect(ctx context.Context, c *pgx.Conn) (bool, error) {
	var process uint32
	err := c.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&process)
	return err == nil && process == c.PgConn().PID(), err
}

type conn struct{ *stdlib.Conn }

// CheckNamedValue implements driver.NamedValueChecker.
func (c conn) CheckNamedValue(v *driver.NamedValue) error {
	value, err := driver.DefaultParameterConverter.ConvertValue(v.Value)
	switch is := value.(type) {
	case string:
		value = rowjson.Escape(is)
	case bool:
		if value = int64(0); is {
			value = int64(1)
		}
	}
	v.Value = value
	return err
}

// beginQuery begins a transaction that the server ends if its client is silent, which it may be because its host has no
// power or network, or is paused: others wait for its locks, and take over from a node that is silent for ten seconds.
const (
	beginQuery         = "BEGIN" + limitQuery
	beginSnapshotQuery = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + limitQuery
	limitQuery         = "; SET LOCAL idle_in_transaction_session_timeout = '8s'; SET LOCAL lock_timeout = '1min'"
)

// ExecContext implements driver.ExecerContext.
func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.Conn.ExecContext(ctx, query, args)
	c.check(ctx, err)
	return r, err
}

// putAll stores rows of commands in one transaction, with one message to the server, and returns those that it refused.
func (c conn) putAll(ctx context.Context, rows []record) (refused []record, _ error) {
	var b pgx.Batch
	for _, r := range rows {
		args := make([]any, len(r.args))
		for i, arg := range r.args {
			v := driver.NamedValue{Value: arg}
			if err := c.CheckNamedValue(&v); err != nil {
				return nil, err
			}
			args[i] = v.Value
		}
		b.Queue(putExecSQL, args...)
	}
	results := c.Conn.Conn().SendBatch(ctx, &b)
	for _, r := range rows {
		tag, err := results.Exec()
		if err != nil {
			results.Close()
			c.check(ctx, err)
			return nil, err
		}
		if tag.RowsAffected() == 0 {
			refused = append(refused, r)
		}
	}
	return refused, results.Close()
}

// check closes a connection to a server that does not write any more: the next one may lead to the server that took over.
func (c conn) check(ctx context.Context, err error) {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "25006" {
		_ = c.Conn.Conn().Close(ctx)
	}
}

// BeginTx implements driver.ConnBeginTx.
func (c conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	query := beginQuery
	if opts.ReadOnly {
		query = beginSnapshotQuery
	}
	tx, err := c.Conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: query})
	if err != nil && pgconn.SafeToRetry(err) {
		return nil, driver.ErrBadConn
	}
	return transaction{ctx, tx}, err
}

// transaction is a driver.Tx.
type transaction struct {
	ctx context.Context
	tx  pgx.Tx
}

func (t transaction) Commit() error   { return t.tx.Commit(t.ctx) }
func (t transaction) Rollback() error { return t.tx.Rollback(t.ctx) }

// dial makes a connection that ends if the server is silent for half a minute.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control: func(network, _ string, c syscall.RawConn) (err error) {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			const userTimeout = 0x12 // TCP_USER_TIMEOUT of Linux, in milliseconds
			control := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, 30_000) })
			return errors.Join(control, err)
		},
	}
	return d.DialContext(ctx, network, address)
}

// QueryContext implements driver.QueryerContext.
func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	inner, err := c.Conn.QueryContext(ctx, query, args)
	if c.check(ctx, err); err != nil {
		return nil, err
	}
	return rows{inner}, nil
}

type rows struct{ driver.Rows }

// Next implements driver.Rows.
func (r rows) Next(to []driver.Value) error {
	err := r.Rows.Next(to)
	for i, v := range to {
		switch is := v.(type) {
		case string:
			to[i] = rowjson.Unescape(is)
		case []byte:
			if len(is) == 0 {
				to[i] = []byte(nil)
			}
		}
	}
	return err
}
