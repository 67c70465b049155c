package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/session"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// content reads a reader to its end.
func content(r io.ReadCloser, err error) string {
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return string(b)
}

// TestSessionAfterMove does with a session, on the node that has it now, what a person can do with it, before any turn works there: after a drain of the former node, after a drain
// and the end of that node, and after its death.
func TestSessionAfterMove(t *testing.T) {
	tier.Soak(t) // as TestDrainMovesSessions; internal/storage/workspace/sealed and internal/task/session have the rest
	tier.AnyUser(t)
	for name, tt := range map[string]struct{ drain, kill bool }{
		"drained": {drain: true}, "drained and ended": {drain: true, kill: true}, "died": {kill: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m := newCount(t)
			url, dir := serve(t, map[string]string{"README.md": "notes\n"})
			p := newPair(t, m)
			settings := &session.Settings{Repository: url, Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"}, Verify: "ls README.md", NoSetup: true}
			var turns []session.Turn
			for n, text := range []string{"first message", "second message"} {
				sends(t, p.dies.client, "work", session.Message{Text: text, Create: settings})
				turns = append(turns, answered(t, p.dies.client, "work", n+1))
				row := world.Must(p.lives.DB.Task(ctx, turns[n].Task))(t)
				if node := p.nodeOf(t, row.Owner); node != "b" {
					t.Fatalf("the session is on node %s", node)
				}
				until(t, "the files of the turn are stored", func(ctx context.Context) bool {
					return world.Must(p.lives.DB.Workspace(ctx, row.Repo.Checkpoint))(t).Archived != nil
				})
			}
			workspace := world.Must(p.lives.Client.Sessions.Get(ctx, "work"))(t).Workspace
			next := p.lives.Client
			if tt.drain && !tt.kill { // a session that was set back goes, too
				for _, n := range []int{1, 2} {
					world.Must(p.dies.client.Sessions.Restore(ctx, "work", session.Restore{Turn: n}))(t)
				}
			}
			if tt.drain {
				s := world.Must(next.Sessions.Get(ctx, "work"))(t)
				drained(t, next, "b", "the session goes", went(admin.WorkMove{Session: s.ID, Key: "work", To: "a"}))
			}
			if tt.drain && !tt.kill { // the files that the former node still has are used by nobody
				s := world.Must(next.Sessions.Get(ctx, "work"))(t)
				if _, err := p.dies.client.Workspaces.Diff(ctx, string(s.Workspace), false); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "continues on") {
					t.Errorf("the changes that the former node has: %v", err)
				}
			}
			if tt.kill {
				p.kill(t)
			}
			if !tt.drain { // until the lease has ended
				until(t, "the other node has the session", func(ctx context.Context) bool {
					return p.nodeOf(t, world.Must(p.lives.DB.SessionByKey(ctx, "", "work"))(t).Owner) == "a"
				})
			}
			if f, err := next.Sessions.Fork(ctx, "work", session.Fork{Key: "fork"}); err != nil || f.At != 2 {
				t.Fatalf("fork: %v, at turn %d", err, f.At)
			}
			for _, n := range []int{1, 2, 1} {
				if s, err := next.Sessions.Restore(ctx, "work", session.Restore{Turn: n}); err != nil || s.At != n {
					t.Fatalf("restore turn %d: %v, at turn %d", n, err, s.At)
				}
			}
			world.Must(next.Sessions.Fork(ctx, "fork", session.Fork{Key: "second-fork"}))(t)
			// The patch and the conversation of each turn are there, and what was verified can be delivered.
			for n, turn := range turns {
				if patch := content(next.Tasks.Diff(ctx, turn.Task, 0)); !strings.Contains(patch, "+one") || strings.Contains(patch, "+two") != (n == 1) {
					t.Errorf("the patch of turn %d: %s", n+1, patch)
				}
				if said := content(next.Tasks.Transcript(ctx, turn.Task)); !strings.Contains(said, []string{"first message", "second message"}[n]) && !(tt.kill && strings.Contains(said, "on the disk of node b")) {
					t.Errorf("the conversation of turn %d: %s", n+1, said)
				}
			}
			if task, err := next.Tasks.Deliver(ctx, turns[1].Task, api.DeliverTask{Push: true}); err != nil || task.Repo.Delivery == nil || task.Repo.Delivery.Error != nil {
				t.Errorf("the delivery of turn 2: %+v, %v", task.Repo, err)
			} else if text := gittest.Git(t, dir, "show", task.Repo.Delivery.Branch+":count.txt"); text != "one\ntwo" {
				t.Errorf("count.txt is %q", text)
			}
			for _, tt := range []struct{ key, heard, printed string }{
				{"work", "first message", `"one\ntwo\n`}, {"fork", "second message", `"one\ntwo\nthree\n`}, {"second-fork", "second message", `"one\ntwo\nthree\n`},
			} {
				n := len(world.Must(next.Sessions.Get(ctx, tt.key))(t).Turns) + 1
				sends(t, next, tt.key, session.Message{Text: "more for " + tt.key})
				last := answered(t, next, tt.key, n)
				if asked := m.newest("session"); last.Outcome != api.OutcomeVerified || !strings.Contains(asked, tt.heard) || !strings.Contains(asked, tt.printed) || tt.key == "work" && strings.Contains(asked, "second message") {
					t.Errorf("the turn of %s is %s: %+v, %s; the model was asked: %s", tt.key, last.Outcome, last.Error, last.Note, asked)
				}
			}
			for _, key := range []string{"work", "fork", "second-fork"} {
				world.Must(next.Sessions.Close(ctx, key))(t)
			}
			if left := world.Must(p.lives.DB.ListWorkspaces(ctx))(t); len(left) > 0 {
				t.Errorf("workspaces are left: %+v", left)
			}
			if tt.kill { // what the former node still has, its machine of the session among it, ends with its next start
				p.back(t, workspace)
			}
		})
	}
}
