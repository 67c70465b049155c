package postgrestest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hortus.dev/test/patience"
)

// pgbouncer is the pooler, as Debian's pgbouncer has it.
const pgbouncer = "/usr/sbin/pgbouncer"

// Pooler starts PgBouncer in transaction mode before the server: a connection of a client has one of two connections of the
// server, and another one for its next transaction. It returns a function that returns the address of a database. The test is skipped if this
// machine has no PgBouncer.
func (s *Server) Pooler(t testing.TB) func(database string) string {
	t.Helper()
	if _, err := os.Stat(pgbouncer); err != nil {
		t.Skipf("no pooler: %v; install Debian's pgbouncer", err)
	}
	dir := filepath.Join(s.Dir, "pooler")
	file := filepath.Join(dir, "pgbouncer.ini")
	err := os.Mkdir(dir, 0o755)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(dir, nobody, nobody)
	}
	if err == nil {
		err = os.WriteFile(file, fmt.Appendf(nil, `[databases]
* = host=%s user=%s

[pgbouncer]
unix_socket_dir = %s
listen_addr =
auth_type = any
pool_mode = transaction
default_pool_size = 2
server_login_retry = 1
max_client_conn = 1000
logfile = %s/log
pidfile = %s/pid
`, s.Dir, User, dir, dir, dir), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.command(pgbouncer, file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	// PgBouncer listens on its default port, 6432.
	at := func(database string) string { return address(dir, User, database) + "&port=6432" }
	deadline := time.After(patience.Of(30 * time.Second))
	for again := time.NewTicker(20 * time.Millisecond); ; {
		db, err := sql.Open("pgx", at("postgres")+"&default_query_exec_mode=exec")
		if err == nil {
			_, err = db.Exec("SELECT 1")
			err = errors.Join(err, db.Close())
		}
		if err == nil {
			again.Stop()
			return at
		}
		select {
		case <-again.C:
		case <-deadline:
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("PgBouncer does not answer: %v: %s", err, log)
		}
	}
}
