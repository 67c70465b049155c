package secret_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/database"
)

func use(change func(*secrets.Use)) secrets.Use {
	u := secrets.Use{Secret: "token", Account: "a", Sandbox: "i1", Scheme: "https", Host: "api.example.org", Port: 443, Method: "GET", Path: "/v1/x", Status: 200, Binding: 1}
	if change != nil {
		change(&u)
	}
	return u
}

func (f *fixture) used(t *testing.T, filter secrets.UseFilter) []secrets.Use {
	t.Helper()
	rows, _, err := f.Uses(t.Context(), "a", filter, api.PageRequest{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestRecord: a use is recorded and counted, a refused one is an alarm too.
func TestRecord(t *testing.T) {
	var counted, alarms atomic.Int64
	f := newFixture(t, func(c *secret.Config) {
		c.Count = func(u secrets.Use) {
			if counted.Add(1); u.Refused != "" {
				alarms.Add(1)
			}
		}
	})
	f.set(t, "token", stored(canary))
	f.Record(t.Context(), use(nil))
	f.Record(t.Context(), use(func(u *secrets.Use) {
		u.Path, u.Commands, u.Method = "/v1/y?key="+canary, []string{"curl \x1b[31m", "b", "c", "d", "e", "f", "g", "h", "i"}, strings.Repeat("X", 1000)
	}))
	if f.log.String() != "" {
		t.Errorf("the log has %s", f.log)
	}
	f.Record(t.Context(), use(func(u *secrets.Use) { u.Refused, u.Host, u.Status = "another host\n", "evil.example.com", 0 }))
	rows := f.used(t, secrets.UseFilter{})
	if len(rows) != 3 || rows[2].Path != "/v1/x" || rows[2].At.IsZero() || rows[2].Seq == 0 || rows[2].Binding != 1 {
		t.Fatalf("%+v", rows)
	}
	if u := rows[1]; u.Path != "/v1/y" || len(u.Commands) != 8 || strings.Contains(u.Commands[0], "\x1b") || len(u.Method) > 64 {
		t.Errorf("%+v", u)
	}
	if refused := f.used(t, secrets.UseFilter{Refused: true}); len(refused) != 1 || refused[0].Host != "evil.example.com" {
		t.Errorf("%+v", refused)
	}
	if row, err := f.Get(t.Context(), "a", "token"); err != nil || row.Uses != 2 || row.UsedAt == nil {
		t.Errorf("%+v, %v", row, err)
	}
	if log := f.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "evil.example.com") || !strings.Contains(log, "secret=token") || strings.Count(log, "\n") != 1 {
		t.Errorf("the log has %s", log)
	}
	if counted.Load() != 3 || alarms.Load() != 1 {
		t.Errorf("%d counted, %d alarms", counted.Load(), alarms.Load())
	}
	if rows, _, err := f.Uses(t.Context(), "b", secrets.UseFilter{}, api.PageRequest{}); err != nil || len(rows) != 0 {
		t.Errorf("another account: %+v, %v", rows, err)
	}
}

// TestRecordFlood: a flood of refused uses costs records and warnings, not memory, and hides
// neither a use nor its own size.
func TestRecordFlood(t *testing.T) {
	f := newFixture(t, func(c *secret.Config) {
		c.Limits = secret.Limits{Sandbox: 1, SandboxBurst: 10, Alarms: 1, AlarmsBurst: 3}
	})
	f.set(t, "token", stored(canary))
	for range 500 {
		f.Record(t.Context(), use(func(u *secrets.Use) { u.Refused = "no binding" }))
	}
	for range 10 {
		f.Record(t.Context(), use(nil))
	}
	f.Record(t.Context(), use(func(u *secrets.Use) { u.Refused, u.Sandbox = "no binding", "i2" }))
	rows := f.used(t, secrets.UseFilter{})
	sums := map[string]int{}
	for _, u := range rows {
		switch {
		case u.Missed > 0:
			sums["missed"] += u.Missed
			if u.Secret != "token" || u.Sandbox != "i1" {
				t.Errorf("%+v", u)
			}
		case u.Refused != "":
			sums["refused of "+string(u.Sandbox)]++
		default:
			sums["used"]++
		}
	}
	if sums["missed"] != 490 || sums["refused of i1"] != 10 || sums["refused of i2"] != 1 || sums["used"] != 10 {
		t.Errorf("%v", sums)
	}
	if log := f.log.String(); strings.Count(log, "level=WARN") != 4 || !strings.Contains(log, "suppressed=497") {
		t.Errorf("the log has %d warnings: %s", strings.Count(log, "level=WARN"), log)
	}
	if row, err := f.Get(t.Context(), "a", "token"); err != nil || row.Uses != 10 {
		t.Errorf("%+v, %v", row, err)
	}
}

// failing is a store that fails until it is told not to.
type failing struct {
	secret.Rows
	mu    sync.Mutex
	ok    bool
	calls chan struct{}
}

func (r *failing) InsertSecretUses(ctx context.Context, all []secrets.Use) error {
	r.mu.Lock()
	ok := r.ok
	r.mu.Unlock()
	if !ok {
		select {
		case r.calls <- struct{}{}:
		default:
		}
		return errors.New("the disk is full")
	}
	return r.Rows.InsertSecretUses(ctx, all)
}

// TestRecordRetries: while the store fails, uses wait up to a maximum; the others are counted. Close
// says what was lost.
func TestRecordRetries(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows := &failing{Rows: db, calls: make(chan struct{}, 1)}
	var log buffer
	s := secret.New(secret.Config{Rows: rows, Queue: 5, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.Record(t.Context(), use(nil))
	<-rows.calls // the first one is being written
	for range 9 {
		s.Record(t.Context(), use(nil))
	}
	rows.mu.Lock()
	rows.ok = true
	rows.mu.Unlock()
	got, _, err := s.Uses(t.Context(), "a", secrets.UseFilter{}, api.PageRequest{Limit: 100})
	if err != nil || len(got) != 7 || got[0].Missed != 4 {
		t.Errorf("%d records, %+v, %v", len(got), got, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.Record(t.Context(), use(nil))
	if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 uses") {
		t.Errorf("a use after Close: %v", err)
	}
	if text := log.String(); !strings.Contains(text, "retrying") || !strings.Contains(text, "recorded again") {
		t.Errorf("the log has %s", text)
	}

	rows = &failing{Rows: db, calls: make(chan struct{}, 1)}
	s = secret.New(secret.Config{Rows: rows})
	s.Record(t.Context(), use(nil))
	if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 uses of secrets were not recorded") {
		t.Errorf("the store fails until the end: %v", err)
	}
}
