package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"hortus.dev/test/patience"
)

// bin has the programs of the server, as Debian's postgresql-15 has them.
const bin = "/usr/lib/postgresql/15/bin"

// The users of a server: User may do everything without a password, Locked nothing without [Password].
const (
	User     = "hortus"
	Locked   = "locked"
	Password = "a test's password"
)

// nobody runs the server if the test's user is root, whom it refuses.
const nobody = 65534

// Server is a running server.
type Server struct {
	// Dir has the socket and all data.
	Dir string

	settings  []string
	cmd       *exec.Cmd
	ended     chan error // has the result of cmd when it has ended
	databases atomic.Int64
}

// Start starts a server that ends with the test. It does not wait for the disk when it confirms a transaction, unless
// settings such as "fsync=on" say so. The test is skipped if this machine has no Postgres 15.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
		t.Skipf("no Postgres server: %v; install Debian's postgresql-15", err)
	}
	// A short path: that of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "postgres-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, settings: append([]string{"fsync=off", "full_page_writes=off"}, settings...)}
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := s.create(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.exec("CREATE ROLE " + Locked + " LOGIN PASSWORD '" + "a test''s password" + "'"); err != nil {
		t.Fatal(err)
	}
	return s
}

// create makes the data directory: a copy of the one that the user's cache has, since a copy takes a sixth of the processor time.
func (s *Server) create() error {
	from, err := made()
	if err != nil {
		return err
	}
	if err := os.CopyFS(s.data(), os.DirFS(from)); err != nil {
		return err
	}
	if err := os.Chmod(s.data(), 0o700); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(s.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
}

// made returns a data directory on which no server ever ran. It is in the user's cache, and made if it is not there.
func made() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program, err := os.Stat(filepath.Join(bin, "initdb"))
	if err != nil {
		return "", err
	}
	// Another package of Postgres makes another directory, and so does another change of the arguments below.
	dir := filepath.Join(cache, "hortus-tests", fmt.Sprintf("postgres-1-%d", program.ModTime().Unix()))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	s := &Server{}
	if s.Dir, err = os.MkdirTemp("/tmp", "postgres-"); err != nil {
		return "", err
	}
	defer os.RemoveAll(s.Dir)
	if os.Geteuid() == 0 {
		if err := os.Chown(s.Dir, nobody, nobody); err != nil {
			return "", err
		}
	}
	out, err := s.command(filepath.Join(bin, "initdb"), "--pgdata="+s.data(), "--username="+User, "--auth=trust", "--encoding=UTF8", "--locale=C",
		"--wal-segsize=1", "--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	rules := "local all " + Locked + " scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(rules), 0o644); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	whole, err := os.MkdirTemp(filepath.Dir(dir), "postgres-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(whole)
	if err := os.CopyFS(whole, os.DirFS(s.data())); err != nil {
		return "", err
	}
	// Another process may have been faster: its directory is as good.
	if err := os.Rename(whole, dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// Standby starts a server that has a copy of all that this one commits before it confirms it: it takes over after [Server.Promote]. It
// ends with the test.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "postgres-")
	if err != nil {
		t.Fatal(err)
	}
	to := &Server{Dir: dir, settings: s.settings}
	t.Cleanup(func() {
		if err := errors.Join(to.Stop(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if os.Geteuid() == 0 {
		err = os.Chown(dir, nobody, nobody)
	}
	if err == nil {
		var out []byte
		out, err = to.command(filepath.Join(bin, "pg_basebackup"), "--host="+s.Dir, "--username="+User, "--pgdata="+to.data(), "--wal-method=stream", "--write-recovery-conf", "--checkpoint=fast", "--no-sync").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("pg_basebackup: %w: %s", err, out)
		}
	}
	if err == nil {
		err = to.Run()
	}
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err == nil {
			err = s.exec(statement)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	// It is synchronous from its first answer on.
	deadline := time.Now().Add(patience.Of(30 * time.Second))
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C {
		if err := s.exec("DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync') THEN RAISE 'it is not synchronous'; END IF; END $$"); err == nil {
			again.Stop()
			return to
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Promote has a standby take over.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	for _, statement := range []string{"SELECT pg_promote()", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
		if err := s.exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// command returns a command that runs without privileges, and ends with the test.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// Run starts the server, again after Stop or Kill, and waits until it answers.
func (s *Server) Run() error {
	args := []string{"-D", s.data(), "-k", s.Dir, "-c", "listen_addresses=", "-c", "shared_buffers=32MB", "-c", "max_connections=100"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = s.command(filepath.Join(bin, "postgres"), args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	started, ended := make(chan error), make(chan error, 1)
	go func(cmd *exec.Cmd) {
		// The server ends with the thread that started it, and Go ends threads while a test runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}(s.cmd)
	if err := <-started; err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Of(30*time.Second))
	defer cancel()
	for again := time.NewTicker(20 * time.Millisecond); ; {
		if err = s.exec("SELECT 1"); err == nil {
			again.Stop()
			s.ended = ended
			return nil
		}
		select {
		case <-again.C:
			continue
		case werr := <-ended:
			err = errors.Join(err, werr)
		case <-ctx.Done():
			s.cmd.Process.Signal(syscall.SIGQUIT)
			<-ended
		}
		again.Stop()
		log.Seek(0, io.SeekStart)
		text, _ := io.ReadAll(log)
		return fmt.Errorf("the server does not start: %w: %s", err, text)
	}
}

// Stop ends the server in order: it interrupts the clients. It may run again.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash does.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(signal syscall.Signal) error {
	if s.ended == nil {
		return nil
	}
	defer func() { s.ended = nil }()
	if err := s.cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(patience.Of(30 * time.Second)):
		s.cmd.Process.Kill()
		<-s.ended
		return errors.New("the Postgres server did not end within 30 seconds")
	}
}

// URL returns the address of a database for a user.
func (s *Server) URL(user, database string) string { return address(s.Dir, user, database) }

func address(socket, user, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + database, RawQuery: "host=" + url.QueryEscape(socket)}).String()
}

// Database returns the name of a new, empty database, which ends with the server.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Exec runs a statement in a database.
func (s *Server) Exec(t testing.TB, database, statement string) {
	t.Helper()
	if err := s.execIn(database, statement); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) exec(statement string) error { return s.execIn("postgres", statement) }

func (s *Server) execIn(database, statement string) error {
	db, err := sql.Open("pgx", s.URL(User, database))
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}
