package agents

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// begun waits until a turn runs a command.
func (p *parlour) begun(key string, n int) session.Turn {
	p.t.Helper()
	var turn session.Turn
	world.Eventually(p.t, "the turn begins", func() bool {
		s := p.get(key)
		turn = s.Turns[n-1]
		return turn.State == session.TurnRunning
	})
	return turn
}

// touched waits until the turn that runs has written a file, and returns its sandbox. An agent may be installed first.
func (p *parlour) touched(key string, n int, file string) (id api.SandboxID) {
	p.t.Helper()
	p.begun(key, n)
	world.Within(p.t, 5*time.Minute, "the turn writes "+file, func() bool {
		s := p.get(key)
		if t := s.Turns[n-1]; t.State == session.TurnDone {
			p.t.Fatalf("turn %d ended before: %s %q %s %+v", n, t.Outcome, t.Answer, t.Note, t.Error)
		}
		id = s.Sandbox
		sandbox, err := p.w.Client.Sandboxes.Get(p.t.Context(), string(id))
		if err != nil {
			return false // it is not there yet
		}
		defer sandbox.Close()
		_, err = sandbox.Stat(p.t.Context(), "", "/workspace/"+file)
		return err == nil
	})
	return id
}

// TestSessionQueue: messages wait in their order and within a bound, and an interruption comes first, with the receipt of the turn that
// it cut and what that had written.
func TestSessionQueue(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key := "queue-" + isolation
		set := talkSettings(isolation)
		ctx := t.Context()
		send := func(text string, mode session.Mode) session.Turn {
			t.Helper()
			turn := world.Must(p.w.Client.Sessions.Send(ctx, key, session.Message{Text: text, Mode: mode, Create: set}))(t)
			return turn
		}
		first := send("run: echo kept > kept.txt; sync; sleep 600", "")
		p.touched(key, 1, "kept.txt")
		send("run: echo two >> order.txt", session.Queue)
		unwanted := send("run: echo unwanted >> order.txt", session.Queue)
		if s := world.Must(p.w.Client.Sessions.Cancel(ctx, key, session.Cancel{Turn: unwanted.N}))(t); s.Turns[unwanted.N-1].State != session.TurnRemoved || s.Turns[first.N-1].State != session.TurnRunning || s.Turns[unwanted.N-2].State != session.TurnQueued {
			t.Errorf("after one message was removed: %+v", s)
		}
		for n, kind := range map[int]api.Kind{unwanted.N: api.KindConflict, first.N: api.KindConflict, unwanted.N + 1: api.KindNotFound, -1: api.KindNotFound} {
			if _, err := p.w.Client.Sessions.Cancel(ctx, key, session.Cancel{Turn: n}); api.KindOf(err) != kind {
				t.Errorf("to remove turn %d: %v, want %s", n, err, kind)
			}
		}
		for range session.MaxQueue - 2 {
			send("nothing", "")
		}
		urgent := send("run: echo urgent >> order.txt; cat kept.txt", session.Interrupt)
		cut := p.turn(key, first.N)
		if cut.Outcome != api.OutcomeCanceled || cut.Receipt == nil || cut.Receipt.ProcessesLeft != 0 {
			t.Errorf("the turn that was interrupted: %s, %+v", cut.Outcome, cut.Receipt)
		}
		answered(t, p.turn(key, urgent.N), api.OutcomeAnswered, session.RestoredRebuilt, "kept")
		world.Must(p.w.Client.Sessions.Cancel(ctx, key, session.Cancel{Queued: true}))(t)
		s := p.get(key)
		if s.State == session.Running || slices.ContainsFunc(s.Turns, func(u session.Turn) bool {
			return u.State == session.TurnQueued || u.State == session.TurnRunning
		}) {
			t.Errorf("after a cancellation of all: %+v", s)
		}
		last := p.send(key, "run: head -1 order.txt; ls", nil)
		answered(t, last, api.OutcomeAnswered, last.Restored, "urgent", "kept.txt")
		world.Must(p.w.Client.Sessions.Close(ctx, key))(t)
	})
}

// TestSessionQueueBound: the messages that wait are bounded, and one fewer is taken.
func TestSessionQueueBound(t *testing.T) {
	p := newParlour(t)
	set := talkSettings("container")
	world.Must(p.w.Client.Sessions.Send(t.Context(), "k", session.Message{Text: "run: sleep 600", Create: set}))(t)
	p.begun("k", 1)
	for i := range session.MaxQueue + 1 {
		_, err := p.w.Client.Sessions.Send(t.Context(), "k", session.Message{Text: "more"})
		if want := i == session.MaxQueue; want != (api.KindOf(err) == api.KindExhausted) || !want && err != nil {
			t.Fatalf("message %d: %v", i+1, err)
		}
	}
	world.Must(p.w.Client.Sessions.Close(t.Context(), "k"))(t)
}

// TestSessionCheckpoints: a session is taken back and forked, with the files and the conversation of that turn and of no other.
func TestSessionCheckpoints(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key, ctx := "back-"+isolation, t.Context()
		for i, text := range []string{"run: echo alpha > f.txt", "run: echo beta > f.txt", "run: echo gamma > f.txt"} {
			if turn := p.send(key, text, talkSettings(isolation)); turn.N != i+1 || !turn.Checkpoint || !turn.Changed {
				t.Fatalf("%+v", turn)
			}
		}
		back, err := p.w.Client.Sessions.Restore(ctx, key, session.Restore{Turn: 1})
		if err != nil || back.At != 1 || back.State != session.Stored || !back.Turns[1].Superseded || !back.Turns[2].Superseded || back.Turns[0].Superseded {
			t.Fatalf("%+v, %v", back, err)
		}
		four := p.send(key, "run: cat f.txt", nil)
		answered(t, four, api.OutcomeAnswered, session.RestoredRebuilt, "echo alpha", "alpha")
		if strings.Contains(four.Answer, "beta") || four.Changed {
			t.Errorf("it remembers what was undone: %q, changed %v", four.Answer, four.Changed)
		}
		// A superseded turn has its checkpoint: forked, it has its own conversation.
		fork, err := p.w.Client.Sessions.Fork(ctx, key, session.Fork{Key: key + "-2", Turn: 2})
		if err != nil || fork.ForkedFrom != back.ID || fork.TurnCount != 2 || fork.ID == back.ID {
			t.Fatalf("%+v, %v", fork, err)
		}
		other := p.send(key+"-2", "run: cat f.txt; echo other > f.txt", nil)
		answered(t, other, api.OutcomeAnswered, session.RestoredRebuilt, "echo alpha", "echo beta", "beta")
		if strings.Contains(other.Answer, "gamma") {
			t.Errorf("the fork has what came later: %q", other.Answer)
		}
		same := p.send(key, "run: cat f.txt", nil)
		answered(t, same, api.OutcomeAnswered, session.RestoredWarm, "alpha")
		if strings.Contains(same.Answer, "other") {
			t.Errorf("a fork writes to its origin: %q", same.Answer)
		}
		for _, bad := range []session.Restore{{Turn: 0}, {Turn: 9}, {Turn: -1}} {
			if _, err := p.w.Client.Sessions.Restore(ctx, key+"-3", bad); api.KindOf(err) != api.KindNotFound {
				t.Errorf("turn %d of nothing: %v", bad.Turn, err)
			}
		}
		if _, err := p.w.Client.Sessions.Restore(ctx, key, session.Restore{Turn: 99}); api.KindOf(err) != api.KindNotFound {
			t.Errorf("an unknown turn: %v", err)
		}
		if _, err := p.w.Client.Sessions.Fork(ctx, key, session.Fork{Key: key + "-2"}); api.KindOf(err) != api.KindExists {
			t.Errorf("a key that is taken: %v", err)
		}
		for _, k := range []string{key, key + "-2"} {
			s := world.Must(p.w.Client.Sessions.Close(ctx, k))(t)
			if k == key+"-2" {
				p.nothingLeft(s)
			}
		}
	})
}

// TestSessionCanceled cancels turns at random instants: the receipt is true, nothing is left, and the session goes on over its files.
// HORTUS_TEST_SEED repeats a run.
func TestSessionCanceled(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key, most := "cancel-"+isolation, tier.Count(2, 50) // of both
		seed := uint64(time.Now().UnixNano())
		random := rand.New(rand.NewPCG(seed, 7))
		t.Logf("seed %d", seed)
		p.send(key, "run: echo base > base.txt", talkSettings(isolation))
		canceled := 0
		for i := range most {
			before := p.get(key).Sandbox
			turn := world.Must(p.w.Client.Sessions.Send(t.Context(), key, session.Message{Text: "run: for i in 1 2 3 4 5 6 7 8; do echo $i >> log.txt; sleep 0.1; done"}))(t)
			instant := time.NewTimer(time.Duration(random.Int64N(int64(1200 * time.Millisecond))))
			<-instant.C
			s := world.Must(p.w.Client.Sessions.Cancel(t.Context(), key, session.Cancel{Queued: true}))(t)
			switch end := s.Turns[turn.N-1]; {
			case end.State == session.TurnRemoved:
			case end.State != session.TurnDone:
				t.Fatalf("turn %d is %s after its cancellation", turn.N, end.State)
			case end.Outcome == api.OutcomeCanceled:
				canceled++
				if end.Receipt == nil || end.Receipt.ProcessesLeft != 0 {
					t.Errorf("turn %d: receipt %+v", turn.N, end.Receipt)
				}
				sandboxes := world.Must(p.w.Client.Sandboxes.List(t.Context(), false))(t)
				switch {
				case s.State == session.Stored && s.Sandbox == "" && len(sandboxes) == 0:
				case end.Restored == "" && s.State == session.Warm && before != "" && s.Sandbox == before && len(sandboxes) == 1 && sandboxes[0].ID == before:
					// The turn was canceled before it had the sandbox of the one before.
				default:
					t.Errorf("after a cancellation it is %s with sandbox %q, which was %q; restored %q; %d sandboxes are left", s.State, s.Sandbox, before, end.Restored, len(sandboxes))
				}
			case end.Outcome != api.OutcomeAnswered:
				t.Errorf("turn %d ended as %s: %+v", turn.N, end.Outcome, end.Error)
			}
			if i%5 == 4 {
				ok := p.send(key, "run: cat base.txt", nil)
				answered(t, ok, api.OutcomeAnswered, ok.Restored, "base")
			}
		}
		t.Logf("%d of %d turns were canceled", canceled, most)
		if canceled == 0 {
			t.Error("no turn was canceled")
		}
		s := world.Must(p.w.Client.Sessions.Close(t.Context(), key))(t)
		p.nothingLeft(s)
	})
}

// TestSessionWindow: after its window the sandbox of a session is paused, if it is gVisor's, and then ended; what was in its memory
// goes on as long as it is there.
func TestSessionWindow(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key := "window-" + isolation
		set := talkSettings(isolation)
		set.WarmMS, set.PausedMS = 300, patience.Of(20*time.Second).Milliseconds()
		p.send(key, "run: (sleep 1000; true) >/dev/null 2>&1 & echo $! > pid; cat pid", set)
		then, how := session.Stored, session.RestoredRebuilt
		if isolation == "gvisor" {
			then, how = session.Paused, session.RestoredResumed
		}
		world.Eventually(t, "the window ends", func() bool { return p.get(key).State == then })
		turn := p.send(key, "run: kill -0 $(cat pid) && echo lives || echo gone", nil)
		want := "gone"
		if isolation == "gvisor" {
			want = "lives"
		}
		answered(t, turn, api.OutcomeAnswered, how, want)
		if s, err := p.w.Client.Sessions.Close(t.Context(), key); err != nil {
			t.Fatal(err)
		} else {
			p.nothingLeft(s)
		}
	})
}

// TestSessionGate: in a repository with a test command, a question is answered without the gate, and a change is judged by it.
func TestSessionGate(t *testing.T) {
	p := newParlour(t)
	dir := gittest.NewCheckout(t, map[string]string{"sum.sh": "echo $(($1 - $2))\n", "test.sh": "test \"$(sh sum.sh 2 3)\" = 5\n"})
	set := talkSettings("container")
	set.Repository, set.Verify, set.Rounds = dir, "sh test.sh", -1
	ask := p.send("g", "what is here?", set)
	answered(t, ask, api.OutcomeAnswered, session.RestoredNew, "what is here?")
	if ask.Changed || ask.Note != "" {
		t.Errorf("%+v", ask)
	}
	bad := p.send("g", "run: echo 'echo 4' > sum.sh", nil)
	if bad.Outcome != api.OutcomeNeedsHuman || !bad.Changed || !strings.Contains(bad.Note, "gate fails") {
		t.Errorf("%+v", bad)
	}
	good := p.send("g", "run: echo 'echo $(($1 + $2))' > sum.sh", nil)
	if good.Outcome != api.OutcomeVerified || !good.Changed {
		t.Errorf("%+v", good)
	}
	again := p.send("g", "run: cat sum.sh", nil)
	answered(t, again, api.OutcomeAnswered, session.RestoredWarm, "$1 + $2")
	if again.Changed {
		t.Error("reading is a change")
	}
	world.Must(p.w.Client.Sessions.Close(t.Context(), "g"))(t)
}

// TestSessionMuch: a turn that wrote too much to be copied ends its sandbox, and loses nothing.
func TestSessionMuch(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key, files, fill := "much-"+isolation, "2", "head -c 33M /dev/zero"
		if tier.Soaking() {
			files, fill = "5000", ":"
		}
		first := p.send(key, "run: mkdir d; for i in $(seq "+files+"); do "+fill+" > d/$i; done; ls d | wc -l", talkSettings(isolation))
		answered(t, first, api.OutcomeAnswered, session.RestoredNew, files)
		if s := p.get(key); s.State != session.Stored || !first.Checkpoint {
			t.Errorf("it is %s, checkpoint %v", s.State, first.Checkpoint)
		}
		second := p.send(key, "run: ls d | wc -l; echo little > l", nil)
		answered(t, second, api.OutcomeAnswered, session.RestoredRebuilt, files)
		third := p.send(key, "run: ls d | wc -l; cat l", nil)
		answered(t, third, api.OutcomeAnswered, session.RestoredWarm, files, "little")
		if s, err := p.w.Client.Sessions.Close(t.Context(), key); err != nil {
			t.Fatal(err)
		} else {
			p.nothingLeft(s)
		}
	})
}
