package store

import (
	"context"
	"encoding/json"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Store is everything that a store does, one family of rows at a time. Package
// storetest is its conformance suite. The daemon holds a Store; every other consumer
// takes the few methods that it uses.
//
// Lists are sorted, newest first. A filter's Limit below 0 is KindInvalid; a page needs
// a Limit of at least 1 and returns the Cursor of the next page, the zero Cursor after
// the last one. FindX returns the identifier that begins with a prefix, with or without
// its leading letter: KindNotFound if there is none, KindInvalid if there are several
// (the message names some of them) and for an empty prefix.
type Store interface {
	Owners
	Sandboxes
	Execs
	Tasks
	Workspaces
	Snapshots
	Repositories
	Keys
	Requests
	Events
	Egress
	Secrets
	Runs
	Lessons
	Sessions
	Retainer

	// Close waits for running calls and releases the store. Later calls fail with
	// KindUnavailable.
	Close() error
}

// Owners are the runs of daemons.
type Owners interface {
	// InsertOwner stores a run. It comes before any row that the run owns.
	InsertOwner(ctx context.Context, o Owner) error
	// Owners lists the runs that have not ended, oldest first.
	Owners(ctx context.Context) ([]Owner, error)
	// BeatOwner renews the lease of a run. KindConflict if it has ended: it was found dead,
	// and its rows may be another owner's.
	BeatOwner(ctx context.Context, id api.OwnerID, at time.Time) error
	// EndOwner stores when a run ended. The first call counts.
	EndOwner(ctx context.Context, id api.OwnerID, at time.Time) error
}

// Sandboxes are the rows of sandboxes.
type Sandboxes interface {
	// InsertSandbox stores a new sandbox. Its owner, if any, must be stored already.
	InsertSandbox(ctx context.Context, s api.Sandbox) error
	// UpdateSandbox replaces a row. A new owner increments the lease epoch and takes
	// over the sandbox's commands.
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
	Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Sandboxes(ctx context.Context, f SandboxFilter) ([]api.Sandbox, error)
	SandboxPage(ctx context.Context, f SandboxFilter) ([]api.Sandbox, Cursor, error)
	FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error)
	// FindSandboxOf searches one account only; "" means all of them.
	FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error)
	// ProvisionedOf returns the newest sandbox created by an [api.ProvisionRequest] with
	// this task; one that has ended only if ended is set. Account "" is the operator's.
	ProvisionedOf(ctx context.Context, account, task string, ended bool) (api.Sandbox, error)
}

// Execs are the rows of commands.
type Execs interface {
	// InsertExec stores a command of a sandbox that is stored already.
	InsertExec(ctx context.Context, e api.Exec) error
	// UpdateExec replaces a row. Its sandbox cannot change: KindInvalid.
	UpdateExec(ctx context.Context, e api.Exec) error
	Exec(ctx context.Context, id api.ExecID) (api.Exec, error)
	Execs(ctx context.Context, f ExecFilter) ([]api.Exec, error)
	ExecPage(ctx context.Context, f ExecFilter) ([]api.Exec, Cursor, error)
}

// Tasks are the rows of tasks and their attempts.
type Tasks interface {
	// InsertTask stores a new task without its attempts.
	InsertTask(ctx context.Context, t api.Task) error
	// UpdateTask replaces a row and leaves its attempts alone, except for their owner.
	UpdateTask(ctx context.Context, t api.Task) error
	// PutAttempt stores attempt a.N (1 or more) of a task, or replaces it.
	PutAttempt(ctx context.Context, task api.TaskID, a api.Attempt) error
	// Task reads one task with its attempts in order, all as of one instant.
	Task(ctx context.Context, id api.TaskID) (api.Task, error)
	Tasks(ctx context.Context, f TaskFilter) ([]api.Task, error)
	TaskPage(ctx context.Context, f TaskFilter) ([]api.Task, Cursor, error)
	// WalkTasks calls use with each task, newest first, until use fails or ctx ends. It
	// holds few tasks in memory and blocks no writer while use runs.
	WalkTasks(ctx context.Context, f TaskFilter, use func(api.Task) error) error
	// FindTaskOf searches one account only; "" means all of them.
	FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error)
}

// Workspaces are the rows of workspaces.
type Workspaces interface {
	InsertWorkspace(ctx context.Context, w api.Workspace) error
	UpdateWorkspace(ctx context.Context, w api.Workspace) error
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	Workspaces(ctx context.Context, f WorkspaceFilter) ([]api.Workspace, error)
	WorkspacePage(ctx context.Context, f WorkspaceFilter) ([]api.Workspace, Cursor, error)
	// FindWorkspaceOf searches one account only; "" means all of them.
	FindWorkspaceOf(ctx context.Context, account, prefix string) (api.WorkspaceID, error)
}

// Snapshots are the rows of snapshots.
type Snapshots interface {
	InsertSnapshot(ctx context.Context, s api.Snapshot) error
	UpdateSnapshot(ctx context.Context, s api.Snapshot) error
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	Snapshots(ctx context.Context, f SnapshotFilter) ([]api.Snapshot, error)
	SnapshotPage(ctx context.Context, f SnapshotFilter) ([]api.Snapshot, Cursor, error)
	FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error)
	// FindSnapshotOf searches one account only; "" means all of them.
	FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error)
}

// Repositories are the rows of connected repositories.
type Repositories interface {
	// InsertRepository stores a repository. KindExists if its account has another one of
	// that name that is not removed.
	InsertRepository(ctx context.Context, r api.Repository) error
	UpdateRepository(ctx context.Context, r api.Repository) error
	Repository(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	Repositories(ctx context.Context, f RepositoryFilter) ([]api.Repository, error)
	RepositoryPage(ctx context.Context, f RepositoryFilter) ([]api.Repository, Cursor, error)
	// FindRepositoryOf searches one account only; "" means all of them.
	FindRepositoryOf(ctx context.Context, account, prefix string) (api.RepositoryID, error)
}

// Keys are the rows of API keys.
type Keys interface {
	// InsertKey stores a key under the hash of its secret. KindExists if the id or the
	// hash is taken.
	InsertKey(ctx context.Context, k api.Key, hash string) error
	// RevokeKey revokes a key and returns it. The first call sets the time.
	RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (api.Key, error)
	// KeyByHash returns the key that was stored under a hash, revoked or not.
	KeyByHash(ctx context.Context, hash string) (api.Key, error)
	KeyPage(ctx context.Context, f KeyFilter) ([]api.Key, Cursor, error)
	FindKey(ctx context.Context, prefix string) (api.KeyID, error)
}

// Requests are the rows of idempotent requests.
type Requests interface {
	// BeginOnce stores that a request is being answered and returns true, unless its key
	// is taken: then it returns the existing row and false. First it removes rows that
	// expired before o.CreatedAt, and the account's oldest answered rows beyond the
	// maximum most, which counts the new one.
	BeginOnce(ctx context.Context, o Once, most int) (have Once, begun bool, err error)
	// EndOnce stores the answer. KindNotFound if the key was not begun, or has expired.
	EndOnce(ctx context.Context, o Once) error
	// ForgetOnce removes a key that has no answer yet; it is idempotent.
	ForgetOnce(ctx context.Context, account, key string) error
}

// Events are append-only streams.
type Events interface {
	// AppendEvent stores an event and returns its number: 1 for the first of a stream,
	// then one more for each, without gaps, also with concurrent writers. data is JSON or
	// nil and is kept byte for byte. A ctx that ends after the append began does not
	// cancel it.
	AppendEvent(ctx context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error)
	// ReadEvents returns the events after a number, in order: at most limit, and fewer to
	// bound memory, but at least one if there is one.
	ReadEvents(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
}

// Egress are the records of decisions about outgoing connections. They have no owner and do
// not refer to a row: they outlive their sandbox.
type Egress interface {
	// InsertEgress stores decisions in one transaction and sets the Seq of each: larger than
	// every one before, with gaps. A sandbox, an op, a known result and a time are
	// required.
	InsertEgress(ctx context.Context, all []api.EgressDecision) error
	// EgressPage lists decisions by Seq, the largest first.
	EgressPage(ctx context.Context, f EgressFilter) ([]api.EgressDecision, Cursor, error)
	// WalkEgress calls use with each decision, the largest Seq first, until use fails or ctx
	// ends. It holds few decisions in memory and blocks no writer while use runs.
	WalkEgress(ctx context.Context, f EgressFilter, use func(api.EgressDecision) error) error
}

// Secrets are the rows of secrets, and the records of their uses. Account "" is the operator's
// own everywhere; a name is unique within its account. Rows of uses do not refer to a secret:
// they are kept when it is removed.
type Secrets interface {
	// PutSecret stores a secret, or replaces the one of its name, which keeps its number, its ID,
	// the time it was created, its uses and what they used of budgets. A Version other than 0 is
	// what the secret must become: KindConflict if it does not follow the stored one, KindExists
	// for 1 if there is one. value is kept encrypted; it is required for a stored
	// secret and refused for others (KindInvalid). KindExhausted if the account has most
	// others already. It returns the row.
	PutSecret(ctx context.Context, s secrets.Secret, value string, most int) (secrets.Secret, error)
	Secret(ctx context.Context, account, name string) (secrets.Secret, error)
	// SecretValue returns the value of a stored secret. KindConflict if the key of the store
	// does not fit, or if the secret has no stored value.
	SecretValue(ctx context.Context, account, name string) (string, error)
	// RenewSecret replaces a stored value and nothing else of its row but UpdatedAt, if the value
	// is still what it was: KindConflict otherwise.
	RenewSecret(ctx context.Context, account, name, was, value string, at time.Time) error
	// RemoveSecret removes a secret with its value and what it used, and returns what it was.
	RemoveSecret(ctx context.Context, account, name string) (secrets.Secret, error)
	SecretPage(ctx context.Context, f SecretFilter) ([]secrets.Secret, Cursor, error)
	// InsertSecretUses stores uses in one transaction and sets the Seq of each, as InsertEgress
	// does. Those that were not refused are added to Uses and UsedAt of their secret. A
	// sandbox and a time are required, and a secret unless the use was refused.
	InsertSecretUses(ctx context.Context, all []secrets.Use) error
	// ReserveSecret counts a request that is about to be sent, for its task, its day and
	// altogether. Nothing is counted if a budget of the secret is used up already: then it
	// returns which one. Check and count are one step. Nothing is counted for a secret without
	// budgets. KindNotFound if there is no such secret.
	ReserveSecret(ctx context.Context, by secrets.Spender, a secrets.Amounts) (over *secrets.Exhausted, err error)
	// SettleSecret changes what was counted by the difference to what was used. No sum gets
	// below 0. It does nothing if the secret was removed or reset.
	SettleSecret(ctx context.Context, by secrets.Spender, change secrets.Amounts) error
	// ResetSecretSpent forgets what was counted.
	ResetSecretSpent(ctx context.Context, account, name string) error
	// SecretSpent returns what was counted altogether, on the day of an instant, and for the
	// tasks with most use.
	SecretSpent(ctx context.Context, account, name string, at time.Time, tasks int) (secrets.Spent, error)
	// SecretUsePage lists uses by Seq, the largest first.
	SecretUsePage(ctx context.Context, f SecretUseFilter) ([]secrets.Use, Cursor, error)
}

// Retainer removes what has ended and exceeds a [Retention]. It works in short
// transactions; an error does not restore what was removed before it.
type Retainer interface {
	// Prune removes sandboxes with their commands and events, commands, snapshots,
	// decisions about outgoing connections, uses of secrets, and what days and ended tasks
	// used of budgets.
	Prune(ctx context.Context, keep Retention) (Pruned, error)
	// PruneTasks removes tasks that are done, with their attempts and events. In the
	// same transaction, fold adds each of them to the sums of its account and day, which
	// are nil at first.
	PruneTasks(ctx context.Context, keep Retention, fold func(sums []byte, t api.Task) ([]byte, error)) (Pruned, error)
	// WalkTallies calls use with the sums of the removed tasks of an account, all accounts
	// for "", for the days that end after since.
	WalkTallies(ctx context.Context, account string, since time.Time, use func(sums []byte) error) error
}

// Lessons are the rows of what tasks learned. Account "" is the operator's.
type Lessons interface {
	LessonVectors
	// PutLesson stores a lesson, or replaces the text of the one about the same failure, and returns what is stored.
	// A task counts once. Of a scope the least useful are removed beyond api.MaxLessonsPerScope.
	PutLesson(ctx context.Context, l api.Lesson) (api.Lesson, error)
	// SimilarLessons returns the lesson about the same failure, then those that share words with it, the best first.
	SimilarLessons(ctx context.Context, q api.LessonQuery) ([]api.Lesson, error)
	// CountLessons counts a task that was given lessons, and whether it was verified. Those that are gone are left out.
	CountLessons(ctx context.Context, account string, ids []string, helped bool, at time.Time) error
	// LessonPage lists the lessons of a scope, or of all for "", the newest first. Here and in FindLesson account "" means all
	// of them.
	LessonPage(ctx context.Context, account, scope string, limit int, after Cursor) ([]api.Lesson, Cursor, error)
	// FindLesson returns the lesson whose identifier begins with a prefix, with or without its letter.
	FindLesson(ctx context.Context, account, prefix string) (api.Lesson, error)
	RemoveLesson(ctx context.Context, account, id string) (api.Lesson, error)
}
