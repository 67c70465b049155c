package command

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// Set contains the commands of one sandbox that have no recorded end yet.
type Set struct {
	Sandbox *life.Sandbox
	Gate    *life.Gate
	// Ended is closed when the sandbox serves no more in this daemon.
	Ended <-chan struct{}

	machine sandbox.Machine
	guest   *envd.Client

	mu       sync.Mutex
	closed   string // why commands that are added now have ended; empty while the set is open
	commands map[api.ExecID]*command
	starting map[api.ExecID]chan struct{} // closed when the command has started or failed to
	adopting chan struct{}                // closed when the records of an adopted sandbox are taken up; nil otherwise
}

// NewSet makes the set of a sandbox that has no machine yet.
func NewSet(s *life.Sandbox, gate *life.Gate, ended <-chan struct{}) *Set {
	return &Set{Sandbox: s, Gate: gate, Ended: ended, commands: map[api.ExecID]*command{}, starting: map[api.ExecID]chan struct{}{}}
}

// Boot sets the machine of the set, and the client of its guest if there is one already.
func (s *Set) Boot(m sandbox.Machine, guest *envd.Client) {
	if guest == nil {
		guest = envd.NewClient(envd.ClientConfig{Dial: m.Link().Open})
	}
	s.machine, s.guest = m, guest
}

// Guest returns the client of the sandbox's guest, which everybody shares. It is nil until
// Boot.
func (s *Set) Guest() *envd.Client { return s.guest }

// Process returns the command that runs as a process of the sandbox: the newest one if a pid
// was reused.
func (s *Set) Process(pid int) (api.ExecID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found api.Exec
	for _, x := range s.commands {
		if row := x.record(); row.PID == pid && (found.ID == "" || row.StartedAt.After(found.StartedAt)) {
			found = row
		}
	}
	return found.ID, found.ID != ""
}

// Refresh sets in records what is newer than what is stored: commands that run have
// written more.
func (s *Set) Refresh(rows []api.Exec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, row := range rows {
		if x := s.commands[row.ID]; x != nil && row.State == api.ExecRunning {
			rows[i].OutputBytes = x.record().OutputBytes
		}
	}
}

// StopClocks stops the timeouts of the commands while the sandbox is being saved. The
// function that it gives starts them again, later by how long the sandbox was paused.
func (s *Set) StopClocks() (start func(paused time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stopped []*command
	for _, x := range s.commands {
		if x.overdue != nil && x.overdue.Stop() {
			stopped = append(stopped, x)
		}
	}
	return func(paused time.Duration) {
		for _, x := range stopped {
			x.mu.Lock()
			if !x.done {
				x.due = x.due.Add(paused)
				x.overdue.Reset(time.Until(x.due))
			}
			x.mu.Unlock()
		}
	}
}

// End records that the sandbox ended while its commands ran, and takes no more of them.
func (s *Set) End(reason string) {
	for _, x := range s.close(reason) {
		x.abandon(reason)
	}
}

// Detach stores the received size of each command's output, and stops reading: commands continue
// with the sandbox, and their records stay running.
func (s *Set) Detach() {
	for _, x := range s.close("") {
		x.detach()
	}
}

// Running returns the command lines of the commands that run, the newest first: at most most of
// them, each cut to size bytes.
func (s *Set) Running(most, size int) []string {
	s.mu.Lock()
	rows := make([]api.Exec, 0, len(s.commands))
	for _, x := range s.commands {
		rows = append(rows, x.record())
	}
	s.mu.Unlock()
	slices.SortFunc(rows, func(a, b api.Exec) int { return b.StartedAt.Compare(a.StartedAt) })
	var out []string
	for _, row := range rows[:min(len(rows), most)] {
		line := strings.Join(row.Args, " ")
		if len(line) > size {
			line = strings.ToValidUTF8(line[:size], "")
		}
		out = append(out, line)
	}
	return out
}

func (s *Set) close(reason string) []*command {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = reason
	all := make([]*command, 0, len(s.commands))
	for _, x := range s.commands {
		all = append(all, x)
	}
	return all
}

// add puts a command into the set. It gives the reason if the sandbox has ended.
func (s *Set) add(x *command) (ended string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands[x.row.ID] = x
	return s.closed
}

func (s *Set) remove(id api.ExecID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.commands, id)
}

// begin notes that a command is being started, until over is called.
func (s *Set) begin(id api.ExecID) (over func()) {
	ch := make(chan struct{})
	s.mu.Lock()
	s.starting[id] = ch
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.starting, id)
		s.mu.Unlock()
		close(ch)
	}
}

// keeper returns the reader of a command for its record, or a channel that is closed when there
// may be one. Both are nil if the record is final.
func (s *Set) keeper(id api.ExecID) (*command, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.commands[id]; x != nil {
		return x, nil
	}
	if ch := s.starting[id]; ch != nil {
		return nil, ch
	}
	return nil, s.adopting
}

// Adopting marks that the records of a resumed sandbox are being adopted, until over is called.
func (s *Set) Adopting() (over func()) {
	ch := make(chan struct{})
	s.mu.Lock()
	s.adopting = ch
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.adopting = nil
		s.mu.Unlock()
		close(ch)
	}
}

// suspended waits for a pause to disk that is under way, and reports whether the sandbox
// is paused to disk.
func (s *Set) suspended() bool {
	for {
		state, changed := s.Sandbox.Stand()
		if state != life.Suspending {
			return state == life.Suspended
		}
		<-changed
	}
}

// left reports whether the sandbox is left to the next daemon.
func (s *Set) left() bool {
	state := s.Sandbox.State()
	return state == life.Leaving || state == life.Left
}

// ending reports whether the sandbox is being ended, or its guest has exited.
func (s *Set) ending() bool {
	select {
	case <-s.machine.Done():
		return true
	default:
	}
	state := s.Sandbox.State()
	return state == life.Ending || state == life.Ended || state == life.Lost
}

// endMark limits the wait for the end of a stream after its last event.
const endMark = time.Second

// awaitEnding reports whether a stream broke because the sandbox ends, and waits until it
// has ended: streams break a moment before the host sees the guest's death.
func (s *Set) awaitEnding() bool {
	if !s.ending() {
		within := endMark
		if m, ok := s.machine.(sandbox.Watched); ok {
			within = m.Look()
		}
		select {
		case <-s.machine.Done():
		case <-s.Ended:
		case <-time.After(within):
			if !s.ending() {
				return false
			}
		}
	}
	select {
	case <-s.Ended:
		return true
	case <-time.After(endTimeout):
		return false
	}
}

// endTimeout bounds the wait for the end of a sandbox that is being ended.
const endTimeout = 20 * time.Second

// memoryKilled reports whether something was killed for memory since the last call.
func (s *Set) memoryKilled(c *Commands) bool {
	ctx, cancel := context.WithTimeout(c.cfg.Context, 2*time.Second)
	defer cancel()
	stats, err := s.machine.Stats(ctx)
	if err != nil {
		return false
	}
	more := false
	step := s.Sandbox.Fire(life.Change, func(row *api.Sandbox) {
		more = stats.MemoryKills > row.MemoryKills
		row.MemoryKills = stats.MemoryKills
	})
	if step.Answer != life.Ignore {
		return stats.MemoryKills > s.Sandbox.Row().MemoryKills
	}
	if more { // stored, so that another daemon does not count it again
		c.storeSandbox(s.Sandbox)
	}
	return more
}
