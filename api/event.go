package api

import (
	"encoding/json"
	"time"
)

// StreamKind is what an event log belongs to.
type StreamKind string

const (
	StreamTask    StreamKind = "task"
	StreamSandbox StreamKind = "sandbox"
	// StreamCommands stands for the commands of a sandbox, whose ID it has. It has no events: a watch of changes names it when a
	// command starts or ends.
	StreamCommands StreamKind = "commands"
)

// Stream names one ordered log.
type Stream struct {
	Kind StreamKind `json:"kind"`
	ID   string     `json:"id"`
}

// Event is one fact. Seq counts from 1 within its stream without a gap; a reader
// that has seen Seq n asks for what is after n and misses nothing.
type Event struct {
	Stream Stream          `json:"stream"`
	Seq    int64           `json:"seq"`
	At     time.Time       `json:"at"`
	Type   EventType       `json:"type"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// EventType names what happened. Data has the type that stands behind it.
type EventType string

const (
	EventTaskCreated  EventType = "task.created"     // Task
	EventTaskStarted  EventType = "task.started"     // {}
	EventPlan         EventType = "task.plan"        // ExecutionPlan
	EventCode         EventType = "task.code"        // AttemptEvent with Artifact
	EventEscalation   EventType = "task.escalation"  // EscalationEvent: a role moves to the larger model
	EventAttempt      EventType = "task.attempt"     // AttemptEvent: it starts in a sandbox
	EventPhase        EventType = "task.phase"       // PhaseEvent: install or run begins
	EventOutput       EventType = "task.output"      // OutputEvent
	EventResult       EventType = "task.result"      // AttemptEvent with Result
	EventDiagnosis    EventType = "task.diagnosis"   // AttemptEvent with Diagnosis
	EventModel        EventType = "task.model"       // ModelEvent: one call ended
	EventModelRetry   EventType = "task.model_retry" // ModelRetryEvent: a call is made again
	EventRepoStep     EventType = "task.step"        // RepoStepEvent: a step of work on a repository
	EventTier         EventType = "task.tier"        // TierEvent: where files of a task came from
	EventTool         EventType = "task.tool"        // ToolEvent: the agent used a tool
	EventSay          EventType = "task.say"         // SayEvent: what the agent said
	EventCandidate    EventType = "task.candidate"   // best.Candidate: one begins, ended, or was chosen or not
	EventCompact      EventType = "task.compact"     // CompactEvent: the agent's history was shortened
	EventTodo         EventType = "task.todo"        // TodoEvent: the agent wrote its list of work
	EventTaskWaiting  EventType = "task.waiting"     // WaitingEvent: a sandbox of it waits for capacity
	EventOverlap      EventType = "task.overlap"     // OverlapEvent: others change the same files of the repository
	EventTaskLeft     EventType = "task.left"        // LeftEvent: its daemon stops, and the next one continues it
	EventTaskResumed  EventType = "task.resumed"     // ResumedEvent: another daemon continues it
	EventTaskCancel   EventType = "task.cancel"      // {}: cancellation began
	EventTaskFinished EventType = "task.finished"    // Task; exactly once, and last
	EventSandboxState EventType = "sandbox.state"    // SandboxStateEvent
	EventUpdated      EventType = "sandbox.updated"  // UpdatedEvent: its deadline was moved
	EventWaiting      EventType = "sandbox.waiting"  // WaitingEvent
	EventSnapshot     EventType = "sandbox.snapshot" // Snapshot: one was taken
	EventForked       EventType = "sandbox.forked"   // ForkEvent
	EventAdopted      EventType = "sandbox.adopted"  // AdoptedEvent: another daemon took it over, running
	EventEgress       EventType = "sandbox.egress"   // EgressDecision: denied, failed, waiting, or an answer
	EventExecStarted  EventType = "sandbox.exec"     // Exec
	EventExecEnded    EventType = "sandbox.exec_end" // Exec
)

// LeftEvent reports that the daemon of a task stops, and that the next one continues the task.
type LeftEvent struct {
	// Why is a sentence for people.
	Why string `json:"why"`
	// Cut is true if the stop interrupted a step, which did not end in the time that a stop has. The next daemon does what it does after the death of one.
	Cut bool `json:"cut,omitempty"`
}

// ResumedEvent reports that a task continues after the death of its daemon, once what was recorded is in
// place again.
type ResumedEvent struct {
	// Daemon counts the daemons that worked on the task, this one included.
	Daemon int `json:"daemon"`
	// Steps counts the recorded steps, which are not done again: calls of models and tools among them.
	Steps int `json:"steps"`
	// Cut counts the steps that had begun and did not end.
	Cut int `json:"cut"`
	// PausedMS is how long no daemon worked on the task, all together.
	PausedMS int64 `json:"pausedMs"`
	// MS is how long the restoration took.
	MS int64 `json:"ms"`
	// Move is set if another node of a fleet worked on the task before.
	Move *TaskMove `json:"move,omitempty"`
}

// Tiers of what a task starts from, the fastest first.
const (
	TierPacked = "packed" // a layer that is there: mounted
	TierRaw    = "raw"    // a copy from which the layer is made
	TierCold   = "cold"   // nothing: cloned first
)

// TierEvent reports that files of a task were looked for in one tier. After a miss the next
// tier follows; cold has no miss.
type TierEvent struct {
	// Part is what was looked for: "repository".
	Part string `json:"part"`
	Tier string `json:"tier"`
	Hit  bool   `json:"hit"`
	// Key is the SHA-256 of the address and the branch, in hex, and Commit what they stand for.
	Key    string `json:"key"`
	Commit string `json:"commit"`
	// MS is how long a hit took.
	MS int64 `json:"ms,omitempty"`
}

// AttemptEvent is the data of events about one attempt.
type AttemptEvent struct {
	Attempt   int              `json:"attempt"`
	Of        int              `json:"of"`
	Artifact  *CodeArtifact    `json:"artifact,omitempty"`
	Result    *ExecutionResult `json:"result,omitempty"`
	Diagnosis *Diagnosis       `json:"diagnosis,omitempty"`
	Sandbox   SandboxID        `json:"sandbox,omitempty"`
	Isolation string           `json:"isolation,omitempty"`
	Why       string           `json:"why,omitempty"`
	Skipped   []Unenforced     `json:"unenforced,omitempty"`
}

// PhaseEvent reports that a phase of an attempt begins.
type PhaseEvent struct {
	Attempt int    `json:"attempt"`
	Phase   Phase  `json:"phase"`
	Command string `json:"command"`
}

// OutputEvent is a piece of what a program wrote, as it came. Data is base64 in
// JSON, because programs write bytes.
type OutputEvent struct {
	Attempt int    `json:"attempt"`
	Phase   Phase  `json:"phase"`
	Stream  string `json:"stream"` // "stdout" or "stderr"
	Data    []byte `json:"data"`
}

// ModelEvent reports that a role asked a model.
type ModelEvent struct {
	Role  string `json:"role"`
	Agent string `json:"agent,omitempty"` // as in ToolEvent
	Model string `json:"model"`
	MS    int64  `json:"ms"`
	Usage Usage  `json:"usage,omitzero"`
	Error string `json:"error,omitempty"`

	Candidate int `json:"candidate,omitempty"`
}

// ModelRetryEvent reports that a role asks its model again: the call failed in a
// way that may pass, or its answer could not be used.
type ModelRetryEvent struct {
	Role  string `json:"role"`
	Agent string `json:"agent,omitempty"` // as in ToolEvent
	Model string `json:"model"`
	// Attempt is the try that failed, from 1; Of is how many there can be.
	Attempt int `json:"attempt"`
	Of      int `json:"of"`
	// WaitMS is the time until the next.
	WaitMS int64  `json:"waitMs"`
	Error  string `json:"error"`

	Candidate int `json:"candidate,omitempty"`
}

// SandboxStateEvent reports that a sandbox changed its state.
type SandboxStateEvent struct {
	State  SandboxState `json:"state"`
	Reason string       `json:"reason,omitempty"`
	Proof  *Proof       `json:"proof,omitempty"`
}

// UpdatedEvent reports that the deadline of a sandbox was moved.
type UpdatedEvent struct {
	ExpiresAt time.Time `json:"expiresAt"`
}

// AdoptedEvent reports that a daemon took over a sandbox that an earlier one had left
// running.
type AdoptedEvent struct {
	From OwnerID `json:"from"`
	To   OwnerID `json:"to"`
	// Cause is how the earlier daemon left it, State how it was found.
	Cause string       `json:"cause"`
	State SandboxState `json:"state"`
	// Commands counts those whose end was not recorded yet.
	Commands int `json:"commands"`
}

// ForkEvent reports that a sandbox was forked. Children are those that live.
type ForkEvent struct {
	Kind     SnapshotKind `json:"kind"`
	Memory   MemoryOrigin `json:"memory,omitempty"`
	PausedMS int64        `json:"pausedMs"`
	Children []SandboxID  `json:"children"`
	Failed   int          `json:"failed,omitempty"`
}

// EventRetry is the type of the event that something of a task failed and is tried again; its data is [RetryEvent]. Calls of models
// have an event of their own, EventModelRetry.
const EventRetry EventType = "task.retry"

// What is tried again.
const (
	// RetrySandbox is the sandbox of an agent, which was lost: another one takes its place over the same workspace.
	RetrySandbox = "sandbox"
)

// RetryEvent reports that something failed and is tried again.
type RetryEvent struct {
	What string `json:"what"`
	// Attempt is the try that failed, from 1; Of is how many there can be.
	Attempt int `json:"attempt"`
	Of      int `json:"of"`
	// NextAt is when it is tried again, and WaitMS the time until then.
	NextAt time.Time `json:"nextAt"`
	WaitMS int64     `json:"waitMs"`
	Error  string    `json:"error"`
	// Candidate is the number of the candidate, if the task has several.
	Candidate int `json:"candidate,omitempty"`
}
