package story

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// TestStopLeavesTasks stops the daemon in order while a model answers the agent of a task and that of a session. The commands that follow say so, with exit code 5.
// The next daemon continues both, and the models are asked nothing twice. A task that was canceled stays canceled.
func TestStopLeavesTasks(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"signal", "command"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			g := newGarden(t)
			g.light()
			g.env = append(g.env, "HORTUS_IDLE=10m")
			var mu sync.Mutex
			held, release := 0, make(chan struct{})
			models := byHistory(t, g, shell("sed -i 's/a - b/a + b/' calc.py"), finishes())
			models.hold = func(n int) {
				if n == 1 {
					mu.Lock()
					held++
					mu.Unlock()
					<-release
				}
			}
			dir := makeRepo(t, g, small)
			args := []string{"--repo", dir, "--model", "anthropic", "--author", "Ada <ada@example.org>"}
			g.must("task", "ls") // the daemon is there
			follows := g.start(append([]string{"task"}, append(args, "Fix the failing test")...)...)
			talks := g.start(append([]string{"session", "send", "talk"}, append(args, "Fix the failing test")...)...)
			until(t, "both agents wait for their models", func() string {
				mu.Lock()
				defer mu.Unlock()
				if held < 2 {
					return "they do not"
				}
				return ""
			})
			stop := make(chan result, 1)
			if how == "signal" {
				if err := syscall.Kill(daemonOf(g.dir), syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			} else {
				go func() { stop <- g.run("daemon", "stop") }()
			}
			until(t, "the daemon stops", func() string {
				if !strings.Contains(g.log(), "tasks are left to the next daemon") {
					return "it does not"
				}
				return ""
			})
			close(release)
			if how == "command" {
				if r := <-stop; r.code != 0 || !strings.Contains(r.stderr, "tasks that run continue at the next start") {
					t.Errorf("daemon stop: %s", r)
				}
			}
			g.gone()
			for what, r := range map[string]*started{"hortus task watch ": follows, "hortus session show talk": talks} {
				if code, out := r.ends(), r.output.String(); code != 5 || !strings.Contains(out, "the daemon has stopped; ") || !strings.Contains(out, "next: "+what) {
					t.Errorf("a command that follows ended with %d: %s", code, out)
				}
			}
			if left := g.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}

			var id api.TaskID
			for _, task := range decode[[]api.Task](t, g.must("task", "ls", "--json")) { // the next daemon
				if task.Session == "" {
					id = task.ID
				}
			}
			if r := g.run("task", "watch", string(id)); r.code != 0 || !strings.Contains(r.stderr, "the task continues at its next start") || !strings.Contains(r.stderr, "0 interrupted") {
				t.Errorf("task watch: %s", r)
			}
			if told := toldOnce(t, g, id, 0); told[api.EventTaskLeft] != 1 || told[api.EventTaskResumed] != 1 || told[api.EventTaskCancel] != 0 {
				t.Errorf("events: %v", told)
			}
			until(t, "the turn ends", func() string {
				turns := decode[session.Session](t, g.must("session", "show", "talk", "--json")).Turns
				if turns[0].State != session.TurnDone {
					return string(turns[0].State)
				}
				if turns[0].Outcome != api.OutcomeVerified && turns[0].Outcome != api.OutcomeAnswered {
					t.Fatalf("the turn is %s: %v", turns[0].Outcome, turns[0].Error)
				}
				return ""
			})
			if n := models.requests(); n != 4 {
				t.Errorf("the models were asked %d times, want 2 for each agent", n)
			}
		})
	}
}
