package life

import "hortus.dev/api"

// State is the state of a sandbox in this daemon. It has more values than the state in the
// sandbox's row, which clients see.
type State uint8

// The states of a sandbox.
const (
	Queued     State = iota // waits for capacity of the host
	Starting                // a backend boots or restores it
	Restoring               // is being resumed from disk
	Running                 // commands can run
	Saving                  // is being saved for a snapshot or a fork, or is paused for a copy
	Pausing                 // is being paused in memory
	Paused                  // paused in memory
	Resuming                // is being resumed from memory
	Suspending              // is being paused to disk
	Leaving                 // is being left to the next daemon
	Ending                  // is being killed, or its guest has ended
	Suspended               // paused to disk; final for this daemon
	Left                    // left to the next daemon; final for this daemon
	Ended                   // ended; final
	Lost                    // ended without a request; final

	states
)

var stateTexts = [states]struct {
	name  string
	words string           // completes "the sandbox is"
	row   api.SandboxState // what entering the state sets in the row; empty leaves it
}{
	Queued:     {"queued", "waiting for capacity", ""},
	Starting:   {"starting", "starting", ""},
	Restoring:  {"restoring", "being resumed from disk", ""},
	Running:    {"running", "running", api.SandboxRunning},
	Saving:     {"saving", "being saved", ""},
	Pausing:    {"pausing", "being paused", ""},
	Paused:     {"paused", "paused", api.SandboxPaused},
	Resuming:   {"resuming", "being resumed", ""},
	Suspending: {"suspending", "being paused to disk", ""},
	Leaving:    {"leaving", "being handed over to the next daemon", ""},
	Ending:     {"ending", "ending", ""},
	Suspended:  {"suspended", "paused to disk", api.SandboxPaused},
	Left:       {"left", "handed over to the next daemon", ""},
	Ended:      {"ended", "ended", api.SandboxEnded},
	Lost:       {"lost", "lost", api.SandboxLost},
}

// String returns the state's name in the table.
func (s State) String() string { return stateTexts[s].name }

// Words complete the sentence "the sandbox is".
func (s State) Words() string { return stateTexts[s].words }

// Final reports whether this daemon does nothing more with the sandbox.
func (s State) Final() bool { return s >= Suspended }

// Busy reports whether the state is that of work under way, which ends by itself.
func (s State) Busy() bool {
	switch s {
	case Queued, Starting, Restoring, Saving, Pausing, Resuming, Suspending, Leaving, Ending:
		return true
	}
	return false
}

// Event is something that happens to a sandbox: a request, or the end of work that a
// request began.
type Event uint8

// The events of a sandbox.
const (
	Admit            Event = iota // the host has capacity for it
	Boot                          // its guest answers
	BootFailed                    // it could not start
	Change                        // a request changes its row, for example its deadline
	Save                          // a request for a snapshot or a fork
	SaveDone                      // the save is over, with or without success
	Pause                         // a request to pause it in memory
	PauseDone                     // it is paused
	PauseFailed                   // it could not be paused and runs
	Resume                        // a request to resume it from memory
	ResumeDone                    // it runs again
	ResumeFailed                  // it could not be resumed and stays paused
	Suspend                       // a request to pause it to disk
	SuspendDone                   // its state is on disk and its machine has ended
	SuspendFilesDone              // the same, of its files alone
	SuspendFailed                 // it could not be paused to disk and runs
	Leave                         // the daemon stops and leaves it running
	LeaveDone                     // the daemon has release it
	Kill                          // a request, a deadline or a limit ends it
	Exit                          // its guest ended by itself
	End                           // nothing of it is left
	Lose                          // nothing of it is left, and it was not killed

	events
)

var eventNames = [events]string{
	Admit: "admit", Boot: "boot", BootFailed: "boot failed", Change: "change", Save: "save", SaveDone: "save done",
	Pause: "pause", PauseDone: "pause done", PauseFailed: "pause failed",
	Resume: "resume", ResumeDone: "resume done", ResumeFailed: "resume failed",
	Suspend: "suspend", SuspendDone: "suspend done", SuspendFilesDone: "suspend files done", SuspendFailed: "suspend failed",
	Leave: "leave", LeaveDone: "leave done", Kill: "kill", Exit: "exit", End: "end", Lose: "lose",
}

// String returns the event's name in the table.
func (e Event) String() string { return eventNames[e] }

// Effect is something that the manager does because of a change of state, in the order
// of the step that names it.
type Effect uint8

// The effects of a change.
const (
	StoreRow       Effect = iota // store the row
	Announce                     // append the new state to the event log
	Watch                        // watch the machine, the deadline and the limits
	CancelWait                   // give up the wait for capacity
	CancelSave                   // give up the pause to disk, if it still can be
	CloseLink                    // close the link to the guest and its client
	EndCommands                  // record that the sandbox ended while its commands ran
	DetachCommands               // stop reading commands; their records stay as they are
	FreeMachine                  // free what the machine held
	Remove                       // take the sandbox out of the manager's table and release its capacity
	Finish                       // notify everyone who waits for the end

	effects
)

var effectNames = [effects]string{
	StoreRow: "store row", Announce: "announce", Watch: "watch", CancelWait: "cancel wait", CancelSave: "cancel save",
	CloseLink: "close link", EndCommands: "end commands", DetachCommands: "detach commands",
	FreeMachine: "free machine", Remove: "remove", Finish: "finish",
}

// String returns the effect's name in the table.
func (e Effect) String() string { return effectNames[e] }
