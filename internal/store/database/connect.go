package database

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"hortus.dev/api"
)

// connectError is the error of a connection that could not be made. It says in one line to which database, and why.
type connectError struct {
	cfg *pgx.ConnConfig
	err error
}

// refusedTLS is the text of pgconn for a server without TLS.
const refusedTLS = "server refused TLS connection"

// Error implements error.
func (e *connectError) Error() string {
	text := "connect to Postgres, " + placeOf(e.cfg) + ": "
	switch state := e.state(); {
	case state == "3D000":
		return text + "the database does not exist"
	case strings.HasPrefix(state, "28"):
		text += "the server refuses user " + e.cfg.User + ": "
	}
	return text + strings.Join(e.reasons(), "; ")
}

// Unwrap returns the error of the driver.
func (e *connectError) Unwrap() error { return e.err }

// state is the one of the server that refused the connection; empty if none did.
func (e *connectError) state() string {
	var server *pgconn.PgError
	if errors.As(e.err, &server) {
		return server.Code
	}
	return ""
}

// kind is that of an error of the opening: afterwards the server is one that cannot be reached.
func (e *connectError) kind() api.Kind {
	switch state := e.state(); {
	case state == "3D000":
		return api.KindNotFound
	case strings.HasPrefix(state, "28"):
		return api.KindDenied
	}
	return api.KindUnavailable
}

// explain returns the error of an operation that has no connection.
func (e *connectError) explain(kind api.Kind, err error) *api.Error {
	failed := api.Errorf(kind, "%w", err)
	var unverified *tls.CertificateVerificationError
	switch state := e.state(); {
	case state == "3D000":
		return failed.WithHint("create it: createdb --owner %s %s", e.cfg.User, e.cfg.Database)
	case state == "53300":
		return failed.WithHint("raise max_connections of the server, or the limit of the user: a daemon uses up to %d connections; or use PgBouncer in transaction mode", defaultConnections+leaseConnections)
	case strings.HasPrefix(state, "28"):
		return failed.WithHint("set the password with store.password-file, or PGPASSWORD in the environment of the daemon, and start it again; see also pg_hba.conf of the server")
	case state != "":
		return failed.WithHint("the Postgres server is not available; retry when it is")
	case errors.As(e.err, &unverified), slices.Contains(e.reasons(), refusedTLS):
		return failed.WithHint("the server needs a certificate for the name %s; sslrootcert=FILE in store.url names its authority. On a network that you trust, sslmode=require encrypts without verification, and sslmode=disable does not encrypt", e.cfg.Host)
	}
	return failed.WithHint("start the server, or correct the host, the port and sslmode in store.url; test it with: psql %q", "postgres://"+e.cfg.User+"@"+net.JoinHostPort(e.cfg.Host, portOf(e.cfg))+"/"+e.cfg.Database)
}

// reasons are those of the attempts, each once: with several hosts or addresses, and with and without TLS.
func (e *connectError) reasons() (all []string) {
	attempts := []error{e.err}
	var several interface{ Unwrap() []error }
	if errors.As(e.err, &several) {
		attempts = several.Unwrap()
	}
	for _, err := range attempts {
		if reason := reasonOf(err); !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	if len(all) > 1 { // it tried without TLS, too
		all = slices.DeleteFunc(all, func(reason string) bool { return reason == refusedTLS })
	}
	return all
}

// reasonOf is the innermost text of an error that means something to the user.
func reasonOf(err error) string {
	var server *pgconn.PgError
	var errno syscall.Errno
	var timeout net.Error
	var name *net.DNSError
	switch {
	case errors.As(err, &server):
		return server.Message
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &name):
		return name.Error()
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server ended the connection"
	case strings.HasSuffix(err.Error(), refusedTLS):
		return refusedTLS
	}
	if inner := errors.Unwrap(err); inner != nil { // without the address, which place says
		err = inner
	}
	return strings.ReplaceAll(err.Error(), "\n", ", ")
}
