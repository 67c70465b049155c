package story

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/test/tier"
)

// TestSessionSurvives kills the daemon while turns of a session run. Each turn goes on and ends once, and the next one has the whole
// conversation and the same files. HORTUS_TEST_KILLS is the number of kills.
func TestSessionSurvives(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HORTUS_IDLE=10m")
	models := byHistory(t, g, shell("echo one >> notes.txt; sleep 0.3"), finishes(), shell("sleep 0.3; cat notes.txt; echo two >> notes.txt"), finishes(), shell("cat notes.txt"), finishes())
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 9))
	t.Logf("seed %d", seed)
	kills := killCount(t, 2, 40)
	g.must("session", "ls") // a daemon
	for done := 0; done < kills; {
		key := "s" + string(api.NewSessionID())
		for n := 1; n <= 2; n++ {
			m := session.Message{Text: "message " + string(rune('0'+n)), Create: &session.Settings{Model: "anthropic"}}
			if _, err := g.client().Sessions.Send(t.Context(), key, m); err != nil {
				t.Fatal(err)
			}
			for cut := 0; cut < 2 && done < kills; cut++ {
				instant := time.NewTimer(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
				<-instant.C
				if pid := daemonOf(g.dir); pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
					t.Fatal("there is no daemon to kill")
				}
				done++
				g.must("session", "ls") // the next daemon
			}
			turn := endOf(t, g, key, n)
			if turn.Outcome != api.OutcomeAnswered || !turn.Checkpoint {
				t.Fatalf("after %d kills turn %d is %s: %+v\n%s", done, n, turn.Outcome, turn.Error, g.log())
			}
		}
		s, err := g.client().Sessions.Get(t.Context(), key)
		if err != nil || s.TurnCount != 2 {
			t.Fatalf("%+v, %v", s, err)
		}
		diff := g.must("task", "diff", string(s.Turns[1].Task))
		if !strings.Contains(diff, "+one") || !strings.Contains(diff, "+two") {
			t.Errorf("the files are others:\n%s", diff)
		}
		g.must("session", "close", key)
	}
	if len(models.seen) == 0 {
		t.Error("no model was asked")
	}
}

// endOf waits for the end of a turn and checks that it is told once.
func endOf(t *testing.T, g *garden, key string, n int) (turn session.Turn) {
	t.Helper()
	until(t, "the turn ends", func() string {
		s, err := g.client().Sessions.Get(t.Context(), key)
		if err != nil {
			return err.Error()
		}
		if turn = s.Turns[n-1]; turn.State != session.TurnDone {
			return "it is " + string(turn.State)
		}
		return ""
	})
	ends := 0
	var last int64
	for e, err := range g.client().Sessions.Events(t.Context(), key, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var at session.Turn
		if e.Type == session.EventAnswer && json.Unmarshal(e.Data, &at) == nil && at.N == n {
			ends++
		}
		if e.Seq != last+1 {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		if last = e.Seq; ends > 0 {
			break
		}
	}
	told := 0
	for e, err := range g.client().Tasks.Events(t.Context(), turn.Task, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.EventTaskFinished {
			told++
		}
	}
	if ends != 1 || told != 1 {
		t.Errorf("turn %d: told %d times, its task %d times", n, ends, told)
	}
	return turn
}
