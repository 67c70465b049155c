package session

import (
	"time"

	"hortus.dev/api"
)

// State is where a session stands.
type State string

const (
	// Stored: no sandbox is there; the next message gets one over the workspace.
	Stored State = "stored"
	// Running: the agent works on a message.
	Running State = "running"
	// Warm: the sandbox of the last turn is there, and what it runs continues.
	Warm State = "warm"
	// Paused: that sandbox is stopped in memory.
	Paused State = "paused"
	// Closed is final: nothing of the session is left but its record.
	Closed State = "closed"
)

// Bounds of sessions.
const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 128
	// MaxText is the longest message, in bytes.
	MaxText = 16 << 10
	// MaxAnswer is what is kept of an answer, in bytes; the transcript of the turn has all of it.
	MaxAnswer = 8 << 10
	// MaxQueue is how many messages of a session wait.
	MaxQueue = 16
	// MaxTurns is how many turns a session has, those that were superseded included.
	MaxTurns = 200
	// MaxCheckpoints is how many turns, the newest, have a checkpoint.
	MaxCheckpoints = 50
	// MaxSessions is how many sessions of an account are not closed.
	MaxSessions = 100
)

// Defaults and bounds of the times of a session.
const (
	DefaultWarm   = 5 * time.Minute
	DefaultPaused = 10 * time.Minute
	// MaxWarm bounds both.
	MaxWarm    = 4 * time.Hour
	DefaultTTL = 30 * 24 * time.Hour
	MaxTTL     = 365 * 24 * time.Hour
)

// Settings are what a session is made with. They do not change.
type Settings struct {
	// Repository is where the repository is, and Ref a branch, a tag or a commit of it, as in api.RepoTask. Empty for none: the
	// agent gets an empty workspace.
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
	// Verify is the gate command; empty for the repository's own, if it has one.
	Verify string `json:"verify,omitempty"`
	// Agent is empty or "hortus" for Hortus's own agent, or the name of a program in the sandbox.
	Agent string `json:"agent,omitempty"`
	// Model is the model of the agent, and LargeModel one to switch to when it makes no progress.
	Model      string `json:"model,omitempty"`
	LargeModel string `json:"largeModel,omitempty"`
	// Budget and Rounds bound each turn, as in api.RepoTask.
	Budget api.Budget `json:"budget,omitzero"`
	Rounds int        `json:"rounds,omitempty"`
	// GateTimeoutMS bounds one run of the gate, as api.CreateTask's RunTimeoutMS does.
	GateTimeoutMS int64 `json:"gateTimeoutMs,omitempty"`
	// Author signs the commits; the default is Hortus.
	Author api.Identity `json:"author,omitzero"`
	// Push delivers what is verified after each turn: to one branch of the session, which gets a commit for each turn that changed
	// something. MergeRequest opens a request for it too, and keeps its text up to date. Remote, Target and Draft are as in
	// api.RepoTask.
	Push         bool   `json:"push,omitempty"`
	MergeRequest bool   `json:"mergeRequest,omitempty"`
	Remote       string `json:"remote,omitempty"`
	Target       string `json:"target,omitempty"`
	Draft        bool   `json:"draft,omitempty"`
	// NoSetup leaves out the setup of the repository.
	NoSetup bool `json:"noSetup,omitempty"`
	// Sandbox is what each turn runs in: its isolation, template, limits, egress, secrets, headers and labels.
	Sandbox api.CreateSandbox `json:"sandbox,omitzero"`
	// WarmMS is how long the sandbox stays after a turn, and what it runs continues: 0 for DefaultWarm, -1 for not at all.
	WarmMS int64 `json:"warmMs,omitempty"`
	// PausedMS is how long it is stopped in memory after that, if its backend is gVisor: 0 for DefaultPaused, -1 for not at all.
	PausedMS int64 `json:"pausedMs,omitempty"`
	// TTLMS is the time without a message after which the session is closed; 0 for DefaultTTL.
	TTLMS int64 `json:"ttlMs,omitempty"`
}

// Create requests a session.
type Create struct {
	// Key is the caller's name of the session, unique among those of the account that are not closed.
	Key string `json:"key"`
	Settings
}

// Mode is what a message does while a turn runs.
type Mode string

const (
	// Queue waits for the turn and for the messages before; it is the default.
	Queue Mode = "queue"
	// Interrupt cancels the turn, keeps what it has done, and comes before the messages that wait.
	Interrupt Mode = "interrupt"
)

// Message is said to the agent of a session.
type Message struct {
	Text string `json:"text"`
	Mode Mode   `json:"mode,omitempty"`
	// Create makes the session if there is none of the key. For one that is there it must say the same as it was made with.
	Create *Settings `json:"create,omitempty"`
}

// Cancel stops the turn that runs.
type Cancel struct {
	// Queued removes the messages that wait, too.
	Queued bool `json:"queued,omitempty"`
	// Turn removes this message only, which must wait; the turn that runs continues.
	Turn int `json:"turn,omitempty"`
}

// Restore takes a session back to the checkpoint of a turn.
type Restore struct {
	Turn int `json:"turn"`
}

// Fork makes another session from the checkpoint of a turn.
type Fork struct {
	Key string `json:"key"`
	// Turn is the turn; 0 for the last one that has a checkpoint.
	Turn int `json:"turn,omitempty"`
}

// TurnState is where a turn stands.
type TurnState string

const (
	TurnQueued  TurnState = "queued"
	TurnRunning TurnState = "running"
	TurnDone    TurnState = "done"
	// TurnRemoved is a message that was removed before it was said.
	TurnRemoved TurnState = "removed"
)

// How a turn got its sandbox.
const (
	RestoredNew     = "new"     // the first one over the workspace
	RestoredWarm    = "warm"    // it was there, running
	RestoredResumed = "resumed" // it was stopped in memory
	RestoredRebuilt = "rebuilt" // another one over the same workspace
)

// Turn is one message with what came of it.
type Turn struct {
	N     int       `json:"n"` // from 1
	State TurnState `json:"state"`
	Text  string    `json:"text"`
	Mode  Mode      `json:"mode,omitempty"`
	// Task is the task that the turn is: its events, transcript, diff and receipt.
	Task    api.TaskID  `json:"task,omitempty"`
	Outcome api.Outcome `json:"outcome,omitempty"`
	// Answer is what the agent said last.
	Answer string `json:"answer,omitempty"`
	// Note says what the gate found, or that there is none, or what a person has to decide.
	Note  string     `json:"note,omitempty"`
	Error *api.Error `json:"error,omitempty"`
	// Delivery is what became of the delivery of the turn.
	Delivery *api.Delivery `json:"delivery,omitempty"`
	// Changed is true if the turn changed files. Head is the commit of the workspace after it.
	Changed bool   `json:"changed,omitempty"`
	Head    string `json:"head,omitempty"`
	// Checkpoint is true if the session can be taken back to, or forked from, the end of this turn.
	Checkpoint bool `json:"checkpoint,omitempty"`
	// Superseded is true if the session was taken back to an earlier turn.
	Superseded bool `json:"superseded,omitempty"`
	// Restored says how the turn got its sandbox, and RestoredMS how long that took.
	Restored   string       `json:"restored,omitempty"`
	RestoredMS int64        `json:"restoredMs,omitempty"`
	Receipt    *api.Receipt `json:"receipt,omitempty"`
	Usage      api.Usage    `json:"usage,omitzero"`
	CreatedAt  time.Time    `json:"createdAt"`
	StartedAt  time.Time    `json:"startedAt,omitzero"`
	EndedAt    time.Time    `json:"endedAt,omitzero"`
}

// Session is a conversation with an agent.
type Session struct {
	ID       api.SessionID `json:"id"`
	Key      string        `json:"key"`
	State    State         `json:"state"`
	Account  string        `json:"account,omitempty"`
	Settings Settings      `json:"settings"`
	// Workspace has the files, Commit and Base are what it lies on, and Head what the last turn left.
	Workspace api.WorkspaceID `json:"workspace,omitempty"`
	Commit    string          `json:"commit,omitempty"`
	Base      string          `json:"base,omitempty"`
	Head      string          `json:"head,omitempty"`
	// Delivery is where the work of the session is: its branch and its merge request.
	Delivery *api.Delivery `json:"delivery,omitempty"`
	// Sandbox is the sandbox that is there between two turns.
	Sandbox api.SandboxID `json:"sandbox,omitempty"`
	// At is the turn that the next one continues: the last one, or the one that the session was taken back to.
	At int `json:"at"`
	// ForkedFrom is the session that it was forked from.
	ForkedFrom api.SessionID `json:"forkedFrom,omitempty"`
	// TurnCount counts all turns. Turns are set in the answer about one session only.
	TurnCount int       `json:"turnCount"`
	Turns     []Turn    `json:"turns,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// UsedAt is when the last message came, or the last turn ended.
	UsedAt    time.Time `json:"usedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// Reason is why it was closed.
	Reason string      `json:"reason,omitempty"`
	Owner  api.OwnerID `json:"owner,omitempty"`
}

// Stream is the kind of a session's log of events.
const Stream api.StreamKind = "session"

// The events of a session. The events of the work itself are those of the turn's task.
const (
	EventCreated  api.EventType = "session.created"  // Session
	EventMessage  api.EventType = "session.message"  // Turn: it waits
	EventRemoved  api.EventType = "session.removed"  // Turn: it was removed before it was said
	EventTurn     api.EventType = "session.turn"     // Turn: it began
	EventRestored api.EventType = "session.restored" // RestoredEvent: its sandbox is there
	EventAnswer   api.EventType = "session.answer"   // Turn: it has ended
	EventState    api.EventType = "session.state"    // StateEvent
	EventBack     api.EventType = "session.back"     // BackEvent: taken back to a checkpoint
	EventForked   api.EventType = "session.forked"   // ForkedEvent
	EventClosed   api.EventType = "session.closed"   // Session; exactly once, and last
)

// RestoredEvent reports how a turn got its sandbox.
type RestoredEvent struct {
	Turn int `json:"turn"`
	// How is one of RestoredNew, RestoredWarm, RestoredResumed and RestoredRebuilt.
	How     string        `json:"how"`
	Sandbox api.SandboxID `json:"sandbox"`
	// Messages counts the messages of the conversation that the agent was given.
	Messages int `json:"messages"`
	// MS is how long it took.
	MS int64 `json:"ms"`
}

// StateEvent reports that a session changed its state.
type StateEvent struct {
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// BackEvent reports that a session was taken back.
type BackEvent struct {
	Turn int `json:"turn"`
	// Superseded counts the turns that no longer count.
	Superseded int `json:"superseded"`
}

// ForkedEvent reports that another session was made from this one.
type ForkedEvent struct {
	Turn    int           `json:"turn"`
	Session api.SessionID `json:"session"`
	Key     string        `json:"key"`
}
