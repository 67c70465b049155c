package sandboxtest

import (
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// cpuTime is how much processor time a sandbox has used; nothing where the host does not
// know.
func cpuTime(t *testing.T, b *Sandbox) time.Duration {
	t.Helper()
	st, err := b.Machine.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(max(st.CPUTimeMS, 0)) * time.Millisecond
}

// saveHold saves a sandbox that is to are paused until it is ended or let go.
func saveHold(t *testing.T, s *Suite) {
	s.restorer(t)
	b := s.start(t, nil)
	saver := b.Machine
	if err := saver.Release(t.Context()); err != nil {
		t.Errorf("release of what does not stand: %v", err)
	}
	b.sh(t, `setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >count.new; mv count.new count; done' >/dev/null 2>&1 </dev/null & until [ -s count ]; do sleep 0.05; done`).want(t, 0, "")
	const counts = "[ -s count ] && n=$(cat count); until [ $(cat count) != $n ]; do sleep 0.05; done"

	dir := s.save(t, b, sandbox.SaveOptions{Hold: true})
	begin, first := time.Now(), cpuTime(t, b)
	c := s.restore(t, dir)
	c.sh(t, "[ -s count ]").want(t, 0, "")
	s.kill(t, c)
	took, second := time.Since(begin), cpuTime(t, b)
	if used := second - first; used > took/4 {
		t.Errorf("what stands still used %v in %v", used, took)
	}
	select {
	case <-b.Machine.Done():
		t.Fatal("it has ended")
	default:
	}

	if err := saver.Release(t.Context()); err != nil {
		t.Fatalf("release: %v", err)
	}
	b.sh(t, counts).want(t, 0, "")
	dir = s.save(t, b, sandbox.SaveOptions{})
	b.sh(t, counts).want(t, 0, "")
	s.restore(t, dir).sh(t, "[ -s count ]").want(t, 0, "")

	dir = s.save(t, b, sandbox.SaveOptions{Hold: true})
	s.kill(t, b)
	s.restore(t, dir).sh(t, "[ -s count ]").want(t, 0, "")
	if _, _, err := b.trySave(t, sandbox.SaveOptions{Hold: true}); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("a save of what has ended: %v", err)
	}
	if err := saver.Release(t.Context()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("release of what has ended: %v", err)
	}
}
