package database

import (
	"context"
	"database/sql/driver"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"hortus.dev/internal/store/rowjson"
)

func portOf(c *pgx.ConnConfig) string { return strconv.Itoa(int(c.Port)) }

// connector makes connections to a server whose values are those of SQLite: text keeps every byte, although text of Postgres
// is Unicode without the character 0, what is true is 1, and an empty blob is read as nil.
type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn{inner.(*stdlib.Conn)}, nil
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

// QueryContext implements driver.QueryerContext.
func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	inner, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
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
