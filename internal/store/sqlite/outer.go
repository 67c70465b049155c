package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// outerTx is one transaction on one connection, in which every transaction that
// is begun through db is a savepoint. goose commits after each migration; in an
// outer transaction all of them take effect together or not at all.
type outerTx struct {
	db  *sql.DB
	raw sqliteConn
}

// sqliteConn has the methods of the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

func beginOuterTx(ctx context.Context, d driver.Driver, dsn string) (*outerTx, error) {
	c, err := d.Open(dsn)
	if err != nil {
		return nil, err
	}
	raw, ok := c.(sqliteConn)
	if !ok {
		c.Close()
		return nil, errors.New("the driver's connection lacks a method")
	}
	if _, err := raw.ExecContext(ctx, "BEGIN IMMEDIATE", nil); err != nil {
		raw.Close()
		return nil, err
	}
	db := sql.OpenDB(outerConnector{conn: outerConn{raw}, driver: d})
	db.SetMaxOpenConns(1)
	return &outerTx{db: db, raw: raw}, nil
}

func (o *outerTx) commit(ctx context.Context) error {
	_, err := o.raw.ExecContext(ctx, "COMMIT", nil)
	return err
}

// close ends the connection; SQLite rolls back what was not committed.
func (o *outerTx) close() error {
	return errors.Join(o.db.Close(), o.raw.Close())
}

// outerConnector returns the same connection every time.
type outerConnector struct {
	conn   outerConn
	driver driver.Driver
}

func (c outerConnector) Connect(context.Context) (driver.Conn, error) { return c.conn, nil }
func (c outerConnector) Driver() driver.Driver                        { return c.driver }

type outerConn struct{ sqliteConn }

// Close does nothing: the outer transaction closes the connection.
func (c outerConn) Close() error { return nil }

func (c outerConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c outerConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if _, err := c.ExecContext(ctx, "SAVEPOINT migration", nil); err != nil {
		return nil, err
	}
	return savepoint{c}, nil
}

type savepoint struct{ conn outerConn }

func (s savepoint) Commit() error {
	_, err := s.conn.ExecContext(context.Background(), "RELEASE migration", nil)
	return err
}

func (s savepoint) Rollback() error {
	_, err := s.conn.ExecContext(context.Background(), "ROLLBACK TO migration; RELEASE migration", nil)
	return err
}
