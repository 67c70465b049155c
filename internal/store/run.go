package store

import (
	"context"
	"time"

	"hortus.dev/api"
)

// Bounds of the journal of one run, in bytes and numbers.
const (
	MaxRunInput   = 1 << 20
	MaxStepResult = 32 << 20
	MaxStepName   = 200
	MaxRunSteps   = 20_000
	MaxRunBytes   = 128 << 20
)

// Run is work that is continued by another daemon if the one that does it ends in the middle. Its steps
// are rows of their own.
type Run struct {
	ID   string
	Kind string
	// Owner does it; Epoch counts its owners from 1.
	Owner api.OwnerID
	Epoch int64
	// Input is what is needed to continue it, as JSON.
	Input     []byte
	CreatedAt time.Time
	// Paused is how long no owner worked on it, all together: from the last thing that an owner stored
	// until the next owner took it over.
	Paused time.Duration
	// CanceledAt is when somebody asked to stop it; zero if nobody did.
	CanceledAt time.Time
	// EndedAt is zero until the end.
	EndedAt time.Time
	Result  []byte
}

// RunStep is a step of a run. Its name is unique within the run.
type RunStep struct {
	Name string
	// Try counts how often it began. A step that has begun and is not done was cut if its owner has ended.
	Try int
	// Asked is a digest of what the step was asked, which each try must have; at most 64 bytes.
	Asked []byte
	Done  bool
	// Result is empty until the step is done.
	Result []byte
	// StartedAt and EndedAt are times of the run's clock: without those in which it was paused.
	StartedAt, EndedAt time.Time
}

// RunEnd is what becomes of a run, in one transaction.
type RunEnd struct {
	At     time.Time
	Result []byte
	// Task is stored as by UpdateTask; nil for none.
	Task *api.Task
	// Event is appended as by AppendEvent: its Stream, At, Type and Data count. Nil for none.
	Event *api.Event
}

// Runs are the rows of work that is continued after the death of its daemon. What an owner stores of a run
// that is not its own any more is KindConflict, and so is everything of a run that has ended.
type Runs interface {
	// InsertRun stores a run that begins. KindExists if its ID is taken.
	InsertRun(ctx context.Context, r Run) error
	// Run reads one; KindNotFound if there is none.
	Run(ctx context.Context, id string) (Run, error)
	// UnfinishedRuns lists the runs of a kind that have not ended and belong to other owners, oldest first.
	UnfinishedRuns(ctx context.Context, kind string, notOwner api.OwnerID) ([]Run, error)
	// TakeRun makes an owner's run another owner's. The time since its last step began or ended is added to
	// Paused. KindConflict if it is not from's, has ended, or to has ended.
	TakeRun(ctx context.Context, id string, from, to api.OwnerID, at time.Time) (Run, error)
	// CancelRun stores that a run is to be stopped, by its owner. The first call sets the time.
	CancelRun(ctx context.Context, id string, owner api.OwnerID, at time.Time) error
	// BeginStep stores that a step begins, or begins again, and returns the number of its try. KindConflict
	// if it is done, or was asked something else; KindExhausted if the journal is full.
	BeginStep(ctx context.Context, run string, owner api.OwnerID, s RunStep) (try int, err error)
	// EndStep stores the result of a step that has begun and is not done. KindExhausted if the journal is full.
	EndStep(ctx context.Context, run string, owner api.OwnerID, s RunStep) error
	// RunSteps lists the steps of a run in the order in which they first began.
	RunSteps(ctx context.Context, run string) ([]RunStep, error)
	// EndRun ends a run and removes its steps. It returns the number of the event.
	EndRun(ctx context.Context, run string, owner api.OwnerID, end RunEnd) (seq int64, err error)
}
