package api

import "time"

// Bounds of the interval of scheduled preparations.
const (
	MinPrepareEvery = time.Minute
	MaxPrepareEvery = 365 * 24 * time.Hour
)

// Preparation is the state of the automatic preparation of a connected repository: on its
// schedule, or on request.
type Preparation struct {
	// Requested is true from a request until the daemon starts the preparation.
	Requested bool `json:"requested,omitempty"`
	// Running is true while the daemon Owner fetches and prepares. A daemon that was killed
	// leaves it true; the next one starts the preparation again.
	Running bool    `json:"running,omitempty"`
	Owner   OwnerID `json:"owner,omitempty"`
	// StartedAt and EndedAt are those of the last preparation.
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// NextAt is when the schedule prepares again; zero without a schedule.
	NextAt time.Time `json:"nextAt,omitzero"`
	// Task is the task of the last preparation that ran one.
	Task TaskID `json:"task,omitempty"`
	// Commit is the commit of the last preparation that succeeded, PreparedAt its end.
	Commit     string    `json:"commit,omitempty"`
	PreparedAt time.Time `json:"preparedAt,omitzero"`
	// Failures counts the failures since the last success, and Error is the last one.
	Failures int    `json:"failures,omitempty"`
	Error    *Error `json:"error,omitempty"`
}

// SyncRepository requests a fetch.
type SyncRepository struct {
	// Prepare requests a preparation in the background, after the fetch.
	Prepare bool `json:"prepare,omitempty"`
}

// RepositorySchedule requests a schedule of preparations.
type RepositorySchedule struct {
	// PrepareEveryMS is the time from the end of a preparation to the begin of the next one, in
	// milliseconds: at least a minute. 0 ends the schedule.
	PrepareEveryMS int64 `json:"prepareEveryMs"`
}

// Check refuses an interval that is out of range.
func (s RepositorySchedule) Check() error {
	if ms := s.PrepareEveryMS; ms != 0 && (ms < MinPrepareEvery.Milliseconds() || ms > MaxPrepareEvery.Milliseconds()) {
		return Errorf(KindInvalid, "preparations every %d ms: the interval must be between a minute and a year", ms).
			WithHint("use for example --prepare-every 6h; never ends the schedule")
	}
	return nil
}
