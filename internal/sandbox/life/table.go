package life

// Answer is how a state takes an event.
type Answer uint8

// The answers of a state to an event.
const (
	Refuse Answer = iota // the event is an error in this state
	Go                   // the sandbox is in the state To now, and Do is to be done
	Ignore               // nothing changes, and that is in order
	Wait                 // Do is to be done, and the event to be tried again when the state has changed
)

// Step is the answer of a state to an event.
type Step struct {
	Answer Answer
	To     State
	Do     []Effect
}

func to(s State, do ...Effect) Step { return Step{Answer: Go, To: s, Do: do} }
func wait(do ...Effect) Step        { return Step{Answer: Wait, Do: do} }

var ignore = Step{Answer: Ignore}

var (
	// ends is what is done once nothing of a sandbox is left.
	ends = []Effect{CloseLink, EndCommands, StoreRow, Announce, Remove, Finish}
	// suspends is what is done once the state of a sandbox is on disk.
	suspends = []Effect{StoreRow, CloseLink, DetachCommands, FreeMachine, Remove, Finish, Announce}
	// suspendsFiles is the same of its files alone: its commands have ended.
	suspendsFiles = []Effect{StoreRow, CloseLink, EndCommands, FreeMachine, Remove, Finish, Announce}
)

// busy returns the answers of a state whose work must be completed before anything else can
// happen, except a kill and the end of the guest, which take effect immediately.
func busy(own map[Event]Step) map[Event]Step {
	row := map[Event]Step{
		Change: ignore,
		Save:   wait(), Pause: wait(), Resume: wait(), Suspend: wait(), Leave: wait(),
		Kill: to(Ending), Exit: to(Ending),
	}
	for e, s := range own {
		row[e] = s
	}
	return row
}

// table has what each state does on each event. An event that a state does not list is
// refused.
var table = [states]map[Event]Step{
	Queued: {
		Admit:      to(Starting),
		BootFailed: to(Ended, ends...),
		Kill:       to(Ending, CancelWait),
		Leave:      ignore, // its creator's wait fails; the row stays at starting
	},
	Starting: {
		Boot:       to(Running, StoreRow, Watch),
		BootFailed: to(Ended, ends...),
		Leave:      ignore, // the next daemon ends sandboxes that are starting
	},
	Restoring: {
		Boot:       to(Running, StoreRow, Watch),
		BootFailed: to(Suspended, Remove, Finish),
		End:        to(Ended, ends...), // if it is killed without being resumed
		Kill:       wait(CancelWait),
		Leave:      wait(),
	},
	Running: {
		Change:  ignore,
		Save:    to(Saving),
		Pause:   to(Pausing),
		Resume:  ignore,
		Suspend: to(Suspending),
		Leave:   to(Leaving),
		Kill:    to(Ending),
		Exit:    to(Ending),
	},
	Saving: busy(map[Event]Step{
		SaveDone:  to(Running),
		PauseDone: to(Paused, StoreRow, Announce), // it did not continue after a standstill
	}),
	Pausing: busy(map[Event]Step{PauseDone: to(Paused, StoreRow, Announce), PauseFailed: to(Running)}),
	Paused: {
		Change: ignore,
		Pause:  ignore,
		Resume: to(Resuming),
		Leave:  to(Leaving),
		Kill:   to(Ending),
		Exit:   to(Ending),
	},
	Resuming: busy(map[Event]Step{ResumeDone: to(Running, StoreRow, Announce), ResumeFailed: to(Paused)}),
	Suspending: {
		SuspendDone:      to(Suspended, suspends...),
		SuspendFilesDone: to(Suspended, suspendsFiles...),
		SuspendFailed:    to(Running, StoreRow),
		Leave:            wait(),
		Kill:             wait(CancelSave),
		Exit:             wait(), // the machine ends as a part of it, too
		// It did not continue after a suspend that failed.
		Lose: to(Lost, ends...),
	},
	Leaving: {
		LeaveDone: to(Left, StoreRow, DetachCommands, Remove, Finish),
		Leave:     wait(),
		Kill:      wait(),
		Exit:      wait(),
	},
	Ending: {
		Boot:         ignore, // the creator detects it and ends the machine
		BootFailed:   to(Ended, ends...),
		SaveDone:     ignore,
		PauseDone:    ignore,
		PauseFailed:  ignore,
		ResumeDone:   ignore,
		ResumeFailed: ignore,
		LeaveDone:    ignore,
		Leave:        wait(),
		Kill:         ignore, // a second kill waits for the same end
		Exit:         ignore,
		End:          to(Ended, ends...),
		Lose:         to(Lost, ends...),
	},
	Suspended: {Kill: ignore, Exit: ignore, Leave: ignore},
	Left:      {Kill: ignore, Exit: ignore, Leave: ignore},
	Ended:     {Kill: ignore, Exit: ignore, Leave: ignore, End: ignore, Lose: ignore, BootFailed: ignore, SaveDone: ignore, PauseDone: ignore, PauseFailed: ignore, ResumeDone: ignore, ResumeFailed: ignore},
	Lost:      {Kill: ignore, Exit: ignore, Leave: ignore, End: ignore, Lose: ignore, SaveDone: ignore, PauseDone: ignore, PauseFailed: ignore, ResumeDone: ignore, ResumeFailed: ignore},
}

// Next returns the answer of a state to an event. Its Do must not be changed.
func Next(s State, e Event) Step { return table[s][e] }
