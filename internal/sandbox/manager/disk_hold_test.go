package manager_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
)

// unreadyRows cannot note that a snapshot is ready while full is set.
type unreadyRows struct {
	allRows
	full atomic.Bool
}

func (r *unreadyRows) UpdateSnapshot(ctx context.Context, s api.Snapshot) error {
	if r.full.Load() && s.State == api.SnapshotReady {
		return api.Errorf(api.KindExhausted, "the disk is full")
	}
	return r.allRows.UpdateSnapshot(ctx, s)
}

// TestPauseGoesOn pauses sandboxes to disk of which, after their state is saved,
// something fails: they continue as they were, and nothing is left of the pause.
func TestPauseGoesOn(t *testing.T) {
	rows := &unreadyRows{}
	w := openSaving(t, t.TempDir(), savingOptions{rows: func(r allRows) allRows { rows.allRows = r; return rows }})
	for _, tt := range []struct {
		name      string
		breaks    func(broken bool)
		want      api.Kind
		says      string
		filesOnly bool
	}{
		{name: "not recorded", breaks: rows.full.Store, want: api.KindExhausted, says: "the disk is full"},
		{name: "not recorded, files", breaks: rows.full.Store, want: api.KindExhausted, says: "the disk is full", filesOnly: true},
		{name: "not ended", breaks: func(broken bool) {
			w.b.mu.Lock()
			defer w.b.mu.Unlock()
			if w.b.unkillable = nil; broken {
				w.b.unkillable = func() error { return api.Errorf(api.KindTimeout, "its end was not seen in time") }
			}
		}, want: api.KindTimeout, says: "its end was not seen in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := w.create(t, api.CreateSandbox{})
			released := w.b.released
			tt.breaks(true)
			pause := w.Pauser.PauseToDisk
			if tt.filesOnly {
				pause = w.Pauser.PauseFiles
			}
			_, err := pause(t.Context(), s.ID)
			tt.breaks(false)
			if api.KindOf(err) != tt.want || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("pause: %v", err)
			}
			if row, err := w.Sandboxes.Get(t.Context(), s.ID); err != nil || row.State != api.SandboxRunning || row.Snapshot != "" {
				t.Errorf("%+v, %v", row, err)
			}
			if w.b.released != released+1 {
				t.Errorf("it was let go %d times", w.b.released-released)
			}
			if out, _, err := w.run(t, s.ID, "echo here", nil); err != nil || out != "here\n" {
				t.Errorf("%q, %v", out, err)
			}
			if left := w.onDisk(t); len(left) != 0 {
				t.Errorf("on disk %v", left)
			}
			// The next pause is as good as any.
			row, err := w.Pauser.PauseToDisk(t.Context(), s.ID)
			if err != nil || row.State != api.SandboxPaused {
				t.Fatalf("%+v, %v", row, err)
			}
			if _, err := w.Sandboxes.Resume(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
}
