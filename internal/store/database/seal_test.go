package database

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

const secretValue = "hunter2-in-the-environment"

// clearFiles names the files of a directory that hold the secret.
func clearFiles(t *testing.T, dir string) (found []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if b, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		} else if bytes.Contains(b, []byte(secretValue)) {
			found = append(found, e.Name())
		}
	}
	return found
}

func withSecret(state api.SandboxState) api.Sandbox {
	now := time.Now().UTC()
	b := api.Sandbox{ID: api.NewSandboxID(), State: state, CreatedAt: now, Env: map[string]string{"TOKEN": secretValue, "BYTES": "\xff"}}
	if state.Final() {
		b.EndedAt = now
	}
	return b
}

// TestEnvIsSealed: no file of the database tells a value, the key opens it for its own
// row alone, and a sandbox that has ended has none.
func TestEnvIsSealed(t *testing.T) {
	for name, ahead := range map[string]bool{"at once": false, "ahead": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := SQLite{Path: filepath.Join(dir, "db"), Ahead: ahead}
			db, err := OpenSQLite(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			a, b := withSecret(api.SandboxPaused), withSecret(api.SandboxEnded)
			for _, sandbox := range []api.Sandbox{a, b} {
				if err := db.InsertSandbox(t.Context(), sandbox); err != nil {
					t.Fatal(err)
				}
			}
			if found := clearFiles(t, dir); found != nil {
				t.Errorf("the value is in clear in %q", found)
			}
			got, err := db.Sandbox(t.Context(), a.ID)
			if err != nil || got.Env["TOKEN"] != secretValue || got.Env["BYTES"] != "\xff" || strings.Join(got.EnvNames, " ") != "BYTES TOKEN" {
				t.Errorf("%+v, %v", got, err)
			}
			if got, err := db.Sandbox(t.Context(), b.ID); err != nil || len(got.Env) != 0 || len(got.EnvNames) != 2 {
				t.Errorf("ended: %+v, %v", got, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			// Another row's sealed value is nobody's.
			if db, err = OpenSQLite(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			other := withSecret(api.SandboxPaused)
			if err := db.InsertSandbox(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			db.ahead.flush(t.Context())
			if _, err := db.write.ExecContext(t.Context(), `UPDATE sandbox SET doc = (SELECT doc FROM sandbox WHERE id = ?) WHERE id = ?`, a.ID, other.ID); err != nil {
				t.Fatal(err)
			}
			if got, err := db.Sandbox(t.Context(), other.ID); err != nil || len(got.Env) != 0 {
				t.Errorf("a moved value: %+v, %v", got, err)
			}
			if got, err := db.Sandbox(t.Context(), a.ID); err != nil || got.Env["TOKEN"] != secretValue {
				t.Errorf("its own: %+v, %v", got, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			// Without the key the row is there, and its values are not.
			if err := os.Remove(cfg.Path + keySuffix); err != nil {
				t.Fatal(err)
			}
			if db, err = OpenSQLite(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if got, err := db.Sandbox(t.Context(), a.ID); err != nil || len(got.Env) != 0 || len(got.EnvNames) != 2 {
				t.Errorf("with another key: %+v, %v", got, err)
			}
		})
	}
}

func taskWithSecret() api.Task {
	now := time.Now().UTC()
	return api.Task{ID: api.NewTaskID(), State: api.TaskDone, CreatedAt: now, EndedAt: now, Env: map[string]string{"TOKEN": secretValue}}
}

// TestTaskEnvIsSealed: the values of a task's variables are for its own row, in no file,
// and stay for a replay when it is done.
func TestTaskEnvIsSealed(t *testing.T) {
	dir := t.TempDir()
	db, err := OpenSQLite(t.Context(), SQLite{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a, b := taskWithSecret(), taskWithSecret()
	for _, task := range []api.Task{a, b} {
		if err := db.InsertTask(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	if found := clearFiles(t, dir); found != nil {
		t.Errorf("the value is in clear in %q", found)
	}
	if got, err := db.Task(t.Context(), a.ID); err != nil || got.Env["TOKEN"] != secretValue || strings.Join(got.EnvNames, " ") != "TOKEN" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := db.write.ExecContext(t.Context(), `UPDATE task SET doc = (SELECT doc FROM task WHERE id = ?) WHERE id = ?`, a.ID, b.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Task(t.Context(), b.ID); err != nil || len(got.Env) != 0 || len(got.EnvNames) != 1 {
		t.Errorf("a moved value: %+v, %v", got, err)
	}
}

// TestSealKey refuses a key that others can read.
func TestSealKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if _, err := openSealer(path+keySuffix, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path+keySuffix, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := OpenSQLite(t.Context(), SQLite{Path: path})
	if api.KindOf(err) != api.KindDenied || api.HintOf(err) != "chmod 600 "+path+keySuffix {
		t.Errorf("a key that others can read: %v, next: %s", err, api.HintOf(err))
	}
	if err := os.WriteFile(path+keySuffix, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, os.Chmod(path+keySuffix, 0o600))
	_, err = OpenSQLite(t.Context(), SQLite{Path: path})
	if api.KindOf(err) != api.KindDenied || !strings.Contains(err.Error(), "has 5 bytes, not 32") || !strings.HasPrefix(api.HintOf(err), "restore it") {
		t.Errorf("a key that is too short: %v, next: %s", err, api.HintOf(err))
	}
}
