package external

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// under is a process whose end is that of a sandbox.
type under struct {
	repo.Conn
	exec api.Exec
}

func (u under) Exec() api.Exec { return u.exec }

// TestReplaced: an agent whose sandbox is lost begins its turn again in another one, in its session if it still has it, and is
// told. One that ends by itself, or at a limit, is an error, and so is a sandbox that cannot be replaced.
func TestReplaced(t *testing.T) {
	killed := api.Exec{State: api.ExecUnknown, Exit: api.Exit{Code: -1, Cause: api.CauseKilled}}
	no := api.Errorf(api.KindUnavailable, "no room")
	for _, c := range []struct {
		name, how string
		end       api.Exec
		unable    []error // of the calls of Replace; nil for those behind
		none      bool    // nobody replaces
		stop      api.StopReason
		says      string
		replaced  int
		turns     int
	}{
		{"twice", "loses", killed, nil, false, api.StopEnded, "ended its turn", 2, 3},
		{"the session is gone, too", "loses and forgets", killed, nil, false, api.StopEnded, "ended its turn", 2, 3},
		{"at the second try", "loses", killed, []error{no}, false, api.StopEnded, "ended its turn", 3, 3},
		{"too often", "loses", killed, []error{nil, no, no}, false, api.StopSandbox, "could not be replaced: no room", 3, 2},
		{"never", "loses", killed, []error{no, no, no}, false, api.StopSandbox, "could not be replaced: no room", 3, 1},
		{"by nobody", "loses", killed, nil, true, api.StopSandbox, "ended: killed", 0, 1},
		{"its own end", "loses", api.Exec{State: api.ExecExited}, nil, false, api.StopModel, "stopped (exit code 0", 0, 1},
		{"its time was over", "loses", api.Exec{State: api.ExecUnknown, Exit: api.Exit{Code: -1, Cause: "expired"}}, nil, false, api.StopModel, "stopped (expired", 0, 1},
		{"a limit", "loses", api.Exec{State: api.ExecUnknown, Exit: api.Exit{Code: -1, Cause: api.CauseTimeout}}, nil, false, api.StopModel, "stopped (timeout", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, script := &facts{}, &bytes.Buffer{}
			w := stage(t, c.how, api.Budget{}, f, script)
			talk, replaced := w.desk.Sandbox.Talk, 0
			w.desk.Sandbox = place{talk: func(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
				conn, err := talk(ctx, req)
				return under{conn, c.end}, err
			}}
			if !c.none {
				w.desk.Replace = func(_ context.Context, n int, lost error) error {
					if replaced++; n != replaced || api.KindOf(lost) != api.KindUnavailable {
						t.Errorf("call %d is number %d: %v", replaced, n, lost)
					}
					if n <= len(c.unable) {
						return c.unable[n-1]
					}
					return nil
				}
			}
			rep := w.Run(t.Context(), "Mend it")
			if rep.Stop != c.stop || !strings.Contains(rep.Why, c.says) || (rep.Err != nil) != (c.stop != api.StopEnded) || replaced != c.replaced {
				t.Errorf("%s %q %v after %d calls of Replace", rep.Stop, rep.Why, rep.Err, replaced)
			}
			said, err := os.ReadFile(filepath.Join(w.launch.Env["HOME"], "said"))
			if err != nil {
				t.Fatal(err)
			}
			if got, told := strings.Count(string(said), "Mend it"), strings.Count(string(said), "Your sandbox was lost"); got != c.turns || told != c.turns-1 {
				t.Errorf("%d turns, of which %d were told:\n%s", got, told, said)
			}
			var completed, skipped []string
			for range min(c.turns, 2) {
				completed, skipped = append(completed, "edit: Write"), append(skipped, "edit: Write")
			}
			if !slices.Equal(rep.Completed, completed) || !slices.Equal(rep.Skipped, skipped) || rep.Steps != 2*len(completed) {
				t.Errorf("completed %q, skipped %q, %d steps", rep.Completed, rep.Skipped, rep.Steps)
			}
			if got := strings.Count(script.String(), `"kind":"user"`); got != c.turns {
				t.Errorf("%d messages in the transcript:\n%s", got, script)
			}
		})
	}
}

// TestUnreached: a sandbox that is gone before the agent starts is replaced; what an answer of it says is an error.
func TestUnreached(t *testing.T) {
	for kind, stop := range map[api.Kind]api.StopReason{api.KindUnavailable: api.StopEnded, api.KindInvalid: api.StopModel} {
		w := stage(t, "ends", api.Budget{}, &facts{}, &bytes.Buffer{})
		talk, gone := w.desk.Sandbox.Talk, true
		w.desk.Sandbox = place{talk: func(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
			if gone {
				return nil, api.Errorf(kind, "no")
			}
			return talk(ctx, req)
		}}
		w.desk.Replace = func(context.Context, int, error) error { gone = false; return nil }
		if rep := w.Run(t.Context(), "go"); rep.Stop != stop {
			t.Errorf("%s: %s %s", kind, rep.Stop, rep.Why)
		}
	}
}
