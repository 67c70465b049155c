package manager_test

import (
	"hortus.dev/internal/sandbox/manager"
	"testing"

	"hortus.dev/api"
)

// TestCommandsLeaveNothing: however a command's stream ends, nothing of it hangs
// on the manager afterwards.
func TestCommandsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	s := w.create(t, api.CreateSandbox{})
	hanging := manager.CountContexts(w.Manager)
	for range 5 {
		if _, x, err := w.run(t, s.ID, "exit 3", nil); err != nil || x.Exit.Code != 3 {
			t.Fatalf("exit %+v, %v", x.Exit, err)
		}
	}
	if _, _, err := w.run(t, s.ID, "sleep 1000", func(r *api.ExecRequest) { r.TimeoutMS = 50 }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.run(t, s.ID, "true", func(r *api.ExecRequest) { r.Dir = "/not/there" }); err == nil {
		t.Error("a command ran in a directory that is not there")
	}
	// One whose reader goes away, and that continues.
	x, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	eventually(t, "nothing hangs on the manager", func() bool { return hanging() == 0 })
	// One whose sandbox ends beneath it.
	x, err = w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if hanging() == 0 {
		t.Error("a running command does not hang on the manager: this test counts nothing")
	}
	x.Close()
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing hangs on the manager", func() bool { return hanging() == 0 })
}
