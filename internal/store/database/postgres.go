package database

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"hortus.dev/api"
	"hortus.dev/internal/platform/secretfile"
)

// Postgres is the configuration of a database on a Postgres server, which several daemons may use.
type Postgres struct {
	// URL is the address of the database, postgres://USER@HOST:PORT/NAME?sslmode=MODE, without a password. The parameters
	// are those of libpq. Without sslmode, a host other than this one must have a certificate for its name
	// (verify-full).
	URL string
	// Password is that of the user; empty means PGPASSWORD, or the file of passwords of libpq (PGPASSFILE).
	Password string
	// KeyFile is the file with the key of sealed values; it is created for a new database if it does not exist. All daemons that use the
	// database need the same one.
	KeyFile string
	// Ahead is the path of a file in which rows of commands are stored first, and in the database a moment later; empty for none. One
	// process may use it, and what another daemon reads of a command is up to 0.1 s late.
	Ahead string
	// Connections is the maximum number of connections, beside two for leases; 0 means 10.
	Connections int
	// Logger logs migrations; nil discards them.
	Logger *slog.Logger
}

const (
	defaultConnections = 10
	leaseConnections   = 2
	connectTimeout     = 10 * time.Second
	// A connection that is replaced finds a server that took over from another one.
	maxConnectionAge = 30 * time.Minute
)

// OpenPostgres opens a database on a server, and creates or migrates its tables if necessary. ctx bounds only the opening.
// The kind of an error is KindUnavailable if the server cannot be reached, KindDenied if it refuses the user or the password,
// KindNotFound if the database does not exist, and KindConflict for tables that another version or another program made, and
// for another key.
func OpenPostgres(ctx context.Context, cfg Postgres) (*DB, error) {
	return openPostgres(ctx, cfg, schemaSteps("postgres"))
}

func openPostgres(ctx context.Context, cfg Postgres, steps []string) (_ *DB, err error) {
	conn, err := parsePostgres(cfg)
	if err != nil {
		return nil, err
	}
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	connections, leases := sql.OpenDB(newConnector(conn)), sql.OpenDB(newConnector(conn))
	leases.SetMaxOpenConns(leaseConnections)
	leases.SetConnMaxLifetime(maxConnectionAge)
	connections.SetMaxOpenConns(cmp.Or(cfg.Connections, defaultConnections))
	connections.SetMaxIdleConns(cmp.Or(cfg.Connections, defaultConnections))
	connections.SetConnMaxLifetime(maxConnectionAge)
	away := new(outage)
	all := pool{connections, away}
	db := &DB{dialect: postgresDialect(placeOf(conn)), write: all, read: all, lease: pool{leases, away}, clock: &clock{start: time.Now()}}
	defer func() {
		if err != nil {
			connections.Close()
			leases.Close()
		}
	}()
	if err := connections.PingContext(ctx); err != nil {
		var connect *connectError
		if errors.As(err, &connect) && ctx.Err() == nil {
			return nil, connect.explain(connect.kind(), err)
		}
		return nil, wrapError(ctx, err, "connect to Postgres, %s", placeOf(conn))
	}
	tables := postgresSchema{place: db.dialect.place, steps: steps, pool: connections, log: log}
	if err := tables.prepare(ctx); err != nil {
		return nil, err
	}
	if err := db.identify(ctx, cfg.KeyFile); err != nil {
		return nil, err
	}
	if err := db.prepare(ctx); err != nil {
		return nil, err
	}
	if err := db.readClock(ctx); err != nil {
		return nil, err
	}
	if cfg.Ahead != "" {
		if db.ahead, err = openAhead(ctx, db, cfg.Ahead, log); err != nil {
			return nil, err
		}
	}
	db.describeTables()
	return db, nil
}

// CheckPostgresURL reports why an address is not that of a database.
func CheckPostgresURL(address string) error {
	_, err := parsePostgres(Postgres{URL: address})
	return err
}

// parsePostgres returns how to connect. No error contains the address if it may have a password.
func parsePostgres(cfg Postgres) (*pgx.ConnConfig, error) {
	const example = "write it as postgres://USER@HOST:PORT/NAME?sslmode=verify-full, or postgres:///NAME?host=/run/postgresql for a Unix socket"
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, api.Errorf(api.KindInvalid, "the address of the Postgres database is not valid").WithHint(example)
	}
	query := u.Query()
	if _, has := u.User.Password(); has || query.Has("password") {
		return nil, api.Errorf(api.KindInvalid, "the address of the Postgres database has a password, which other users and logs may see").
			WithHint("remove it, and set store.password-file, or PGPASSWORD in the environment of the daemon")
	}
	if !query.Has("sslmode") && os.Getenv("PGSSLMODE") == "" && !isLocal(cmp.Or(query.Get("host"), u.Hostname(), os.Getenv("PGHOST"))) {
		query.Set("sslmode", "verify-full")
		u.RawQuery = query.Encode()
	}
	conn, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "the address of the Postgres database is not valid: %w", err).WithHint(example)
	}
	if cfg.Password != "" {
		conn.Password = cfg.Password
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	conn.DialFunc = dial
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "hortus"
	}
	return conn, nil
}

// isLocal reports whether a host is this machine: a directory with a Unix socket, or a loopback address.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || strings.HasPrefix(host, "/") || host == "localhost" || err == nil && ip.IsLoopback()
}

// placeOf names a database in messages.
func placeOf(c *pgx.ConnConfig) string {
	if strings.HasPrefix(c.Host, "/") {
		return "database " + c.Database + " at " + c.Host
	}
	return "database " + c.Database + " at " + net.JoinHostPort(c.Host, portOf(c))
}

// isLost reports whether an error says that a connection ended.
func isLost(err error) bool {
	var timeout net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) ||
		strings.Contains(err.Error(), "driver: bad connection") || strings.Contains(err.Error(), "conn closed")
}

// sealCheck is the row that a sealed value belongs to which every daemon must be able to open.
const sealCheck = "identity.sealed"

// ErrOtherKey is the error for a database whose secrets are encrypted with another key.
var ErrOtherKey = errors.New("another key than the one that its secrets are encrypted with")

const otherKey = "copy hortus.db-key from the data directory of a daemon that uses this database, and name the copy in store.key-file (HORTUS_STORE_KEY_FILE)"

// identify reads which database this is, and the key; it makes both for a new database. It refuses a key that is not the one of the database: what it
// seals could not be opened elsewhere.
func (db *DB) identify(ctx context.Context, keyFile string) error {
	return db.inTx(ctx, "the identity", func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "identity"); err != nil {
			return err
		}
		var sealed []byte
		err := tx.QueryRowContext(ctx, `SELECT id, sealed FROM identity`).Scan(&db.id, &sealed)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			if db.sealer, err = openSealer(keyFile, "name another file in store.key-file (HORTUS_STORE_KEY_FILE)"); err != nil {
				return err
			}
			db.id = rand.Text()
			_, err = tx.ExecContext(ctx, `INSERT INTO identity (id, sealed) VALUES ($1, $2)`, db.id, db.sealer.seal([]byte(sealCheck), sealCheck))
		case err == nil:
			db.sealer, err = newSealer(secretfile.Read, keyFile, otherKey)
			if errors.Is(err, fs.ErrNotExist) {
				return api.Errorf(api.KindConflict, "%s: the key that its secrets are encrypted with is not here: %s does not exist", db.dialect.place, keyFile).WithHint(otherKey)
			}
			if err != nil {
				return err
			}
			if _, err := db.sealer.open(sealed, sealCheck); err != nil {
				return api.Errorf(api.KindConflict, "%s: %s has %w", db.dialect.place, keyFile, ErrOtherKey).WithHint(otherKey)
			}
		}
		if err != nil {
			return wrapError(ctx, err, "read the identity of %s", db.dialect.place)
		}
		return nil
	})
}
