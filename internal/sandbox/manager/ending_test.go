package manager_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/internal/sandbox/command"
	"hortus.dev/internal/sandbox/manager"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/store/event"
	"hortus.dev/test/patience"
)

// heldRows holds the ends of commands up: each is told on held, and stored when
// release is closed, or refused where fail is set.
type heldRows struct {
	sandbox.Rows
	held    chan api.ExecID
	release chan struct{}
	fail    error
}

func (h heldRows) UpdateExec(ctx context.Context, e api.Exec) error {
	if e.State != api.ExecRunning {
		h.held <- e.ID
		select {
		case <-h.release:
		case <-ctx.Done(): // of a test that failed
			return ctx.Err()
		}
		if h.fail != nil {
			return h.fail
		}
	}
	return h.Rows.UpdateExec(ctx, e)
}

// heldWorld is a world whose ends of commands are held up.
func heldWorld(t *testing.T, fail error) (*world, heldRows) {
	t.Helper()
	w := newWorld(t)
	h := heldRows{w.db, make(chan api.ExecID, 16), make(chan struct{}), fail}
	w.Manager = managed(t, w, h, w.backend)
	return w, h
}

// managed is another manager of a world.
func managed(t *testing.T, w *world, r sandbox.Rows, b sandbox.Backend) *manager.Manager {
	m := manager.New(manager.Config{
		Owner: w.owner, Backends: []sandbox.Backend{b}, Templates: templates{}, Rows: r, Log: event.NewLog(event.Config{Store: w.db}),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// seen is what the reader of a stream came to.
type seen struct {
	end *envd.EndEvent
	err error
	// stored is the record at that moment, and own what the stream says of it.
	stored, own api.Exec
	out         string
}

// follow reads a stream to its end, and looks at the record at once.
func (w *world) follow(t *testing.T, s *command.Stream) <-chan seen {
	ch := make(chan seen, 1)
	go func() {
		var got seen
		for got.end == nil && got.err == nil {
			var ev *envd.ProcessEvent
			if ev, got.err = s.Next(); got.err == nil && ev.Data != nil {
				got.out += string(ev.Data.Stdout)
			} else if got.err == nil && ev.End != nil {
				end := *ev.End
				got.end = &end
			}
		}
		got.own = s.Exec()
		var err error
		if got.stored, err = w.db.Exec(context.WithoutCancel(t.Context()), got.own.ID); err != nil {
			t.Error(err)
		}
		ch <- got
	}()
	return ch
}

// waitingCommand starts a command that writes and ends when its input does.
func (w *world) waitingCommand(t *testing.T, id api.SandboxID) (s *command.Stream, end func()) {
	t.Helper()
	s, err := w.Guests.StartExec(t.Context(), id, api.ExecRequest{Args: []string{"sh", "-c", "cat; exit 3"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	pid := uint32(s.Exec().PID)
	c, err := w.Guests.Client(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		t.Helper()
		if err := c.SendInput(t.Context(), envd.Selector{PID: &pid}, envd.ProcessInput{Stdin: []byte("word")}); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseStdin(t.Context(), envd.Selector{PID: &pid}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndIsOnRecord: nobody is told of a command's end before its record says so,
// also where the one who began it is paused: a viewer sees the end first here.
func TestEndIsOnRecord(t *testing.T) {
	w, held := heldWorld(t, nil)
	sb := w.create(t, api.CreateSandbox{})
	first, end := w.waitingCommand(t, sb.ID)
	id := first.Exec().ID
	viewer, err := w.Guests.AttachExec(t.Context(), sb.ID, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	sees := w.follow(t, viewer)
	end()
	select {
	case got := <-sees:
		t.Fatalf("it is told of an end that nobody recorded: %+v, %v; the record: %+v", got.end, got.err, got.stored)
	case <-held.held:
	}
	firstSees := w.follow(t, first)
	if row, err := w.db.Exec(t.Context(), id); err != nil || row.State != api.ExecRunning {
		t.Errorf("held up, and stored: %+v, %v", row, err)
	}
	select {
	case got := <-sees:
		t.Fatalf("it is told of an end that is not on record yet: %+v, %v", got.end, got.err)
	default:
	}
	// Anyone who does not wait for it finds a command that runs.
	time.AfterFunc(100*time.Millisecond, func() { close(held.release) })
	for what, ch := range map[string]<-chan seen{"the viewer": sees, "who began it": firstSees} {
		got := <-ch
		if got.err != nil || got.end.ExitCode != 3 || got.out != "word" {
			t.Fatalf("%s: %+v, %q, %v", what, got.end, got.out, got.err)
		}
		for _, row := range []api.Exec{got.stored, got.own} {
			if row.State != api.ExecExited || row.Exit.Code != 3 || row.OutputBytes != 4 || row.EndedAt.IsZero() {
				t.Errorf("%s: the record at the end: %+v", what, row)
			}
		}
	}
	if n := len(held.held); n != 0 {
		t.Errorf("it was recorded %d times more", n)
	}
	for _, s := range []*command.Stream{first, viewer} {
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestEndNotStored: an end that cannot be recorded is an error to everybody, and no
// end.
func TestEndNotStored(t *testing.T) {
	w, held := heldWorld(t, api.Errorf(api.KindExhausted, "no room"))
	close(held.release)
	sb := w.create(t, api.CreateSandbox{})
	first, end := w.waitingCommand(t, sb.ID)
	viewer, err := w.Guests.AttachExec(t.Context(), sb.ID, first.Exec().ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	end()
	for what, ch := range map[string]<-chan seen{"the viewer": w.follow(t, viewer), "who began it": w.follow(t, first)} {
		if got := <-ch; got.end != nil || api.KindOf(got.err) != api.KindExhausted && api.KindOf(got.err) != api.KindUnavailable {
			t.Errorf("%s: %+v, %v", what, got.end, got.err)
		}
	}
}

// memoryKiller is how many processes the memory limit ended, as the test has it, and
// holds up those who ask while asked is set.
type memoryKiller struct {
	sandbox.Backend
	*killCount
}

type killCount struct {
	kills atomic.Int64
	asked chan struct{}
	say   chan struct{}
}

func (b memoryKiller) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	m, err := b.Backend.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return memoryKilled{m, b.killCount}, nil
}

type memoryKilled struct {
	sandbox.Machine
	*killCount
}

func (m memoryKilled) Stats(ctx context.Context) (api.Stats, error) {
	s, err := m.Machine.Stats(ctx)
	if m.asked != nil {
		m.asked <- struct{}{}
		<-m.say
	}
	s.MemoryKills = m.kills.Load()
	return s, err
}

// TestViewerLeavesTheCause: anyone who sees first that a command was killed, why is said
// to all, and once.
func TestViewerLeavesTheCause(t *testing.T) {
	w := newWorld(t)
	count := &killCount{}
	w.Manager = managed(t, w, w.db, memoryKiller{w.backend, count})
	sb := w.create(t, api.CreateSandbox{})
	first, err := w.Guests.StartExec(t.Context(), sb.ID, api.ExecRequest{Args: []string{"sh", "-c", "read x; kill -9 $$"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := w.Guests.AttachExec(t.Context(), sb.ID, first.Exec().ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	count.kills.Store(1)
	pid := uint32(first.Exec().PID)
	c, err := w.Guests.Client(t.Context(), sb.ID)
	if err == nil {
		err = c.CloseStdin(t.Context(), envd.Selector{PID: &pid})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*command.Stream{viewer, first} { // one after the other
		got := <-w.follow(t, s)
		if got.err != nil || got.end.Cause != api.CauseMemory || got.stored.Exit.Cause != api.CauseMemory || got.stored.Exit.Signal != "SIGKILL" {
			t.Errorf("%+v, %v; recorded %+v", got.end, got.err, got.stored)
		}
	}
}

// TestKillOfTheGuestIsNoted: a command that the guest has killed for memory is no reason for the kill of the next one, although the
// counter has it.
func TestKillOfTheGuestIsNoted(t *testing.T) {
	w := newWorld(t)
	count := &killCount{}
	count.kills.Store(1)
	w.Manager = managed(t, w, w.db, memoryKiller{w.backend, count})
	sb := w.create(t, api.CreateSandbox{Limits: api.Limits{MemoryBytes: 64 << 20}})
	for _, c := range []struct{ script, cause string }{{"exec tail /dev/zero", api.CauseMemory}, {"kill -9 $$", ""}} {
		s, err := w.Guests.StartExec(t.Context(), sb.ID, api.ExecRequest{Args: []string{"sh", "-c", c.script}})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-w.follow(t, s); got.err != nil || got.end.Cause != c.cause || got.stored.Exit.Signal != "SIGKILL" {
			t.Errorf("%s: %+v, %v; recorded %+v", c.script, got.end, got.err, got.stored)
		}
	}
}

// TestKillWaitsForTheRecord: when a sandbox is said to have ended, the records of its
// commands are final, also of one whose end somebody was about to record.
func TestKillWaitsForTheRecord(t *testing.T) {
	w := newWorld(t)
	count := &killCount{asked: make(chan struct{}, 16), say: make(chan struct{})}
	w.Manager = managed(t, w, w.db, memoryKiller{w.backend, count})
	sb := w.create(t, api.CreateSandbox{})
	s, err := w.Guests.StartExec(t.Context(), sb.ID, api.ExecRequest{Args: []string{"sh", "-c", "kill -9 $$"}})
	if err != nil {
		t.Fatal(err)
	}
	sees := w.follow(t, s)
	<-count.asked // it has the end, and asks the host why
	time.AfterFunc(100*time.Millisecond, func() { close(count.say) })
	if _, _, err := w.Sandboxes.Kill(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	row, err := w.db.Exec(t.Context(), s.Exec().ID)
	if err != nil || row.State != api.ExecExited || row.Exit.Signal != "SIGKILL" {
		t.Errorf("the sandbox has ended, and its command is %+v, %v", row, err)
	}
	if got := <-sees; got.err != nil || got.end.ExitCode != 137 || got.stored.State != api.ExecExited {
		t.Errorf("%+v, %v; recorded %+v", got.end, got.err, got.stored)
	}
}
