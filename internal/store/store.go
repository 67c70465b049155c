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
// Lists are sorted, newest first. XPage returns one page and the cursor of the next, "" after
// the last one; a limit that is out of range and a cursor of another list are KindInvalid.
// FindX returns the identifier that begins with a prefix, with or without its leading letter:
// KindNotFound if there is none, KindInvalid if there are several (the message names some of
// them) and for an empty prefix.
//
// Account "" is every account in SandboxesOf, FindXOf, WalkX and pages, except those of secrets,
// and the operator's own elsewhere. A row lives until its state is final.
type Store interface {
	Owners
	Nodes
	Sandboxes
	Execs
	Tasks
	Workspaces
	Snapshots
	Repositories
	Keys
	SignIns
	Requests
	Events
	Egress
	Secrets
	Runs
	Lessons
	Documents
	Sessions
	Plans
	Volumes
	Webhooks
	HookEvents
	Retainer
	Amounts
	SharedValues

	// Exclusive calls do while no other process with the same rows is in Exclusive with this name; one that lost its connection
	// to them is not. It holds a connection while do runs.
	Exclusive(ctx context.Context, name string, do func() error) error
	// Now is the time by the clock that all processes with the same rows have in common, up to what the network takes: that of the database server, or that of this
	// machine for a file. What is stored and compared with what another process stores is by this clock.
	Now() time.Time

	// Close waits for running calls and releases the store. Later calls fail with
	// KindUnavailable.
	Close() error
}

// MaxListed is the maximum number of rows of a list that includes final ones and has no pages.
const MaxListed = 1000

// MaxPageBytes is the maximum size of the stored rows of a page. The row that exceeds it is the
// last one of its page.
const MaxPageBytes = 4 << 20

// Owner is a run of a daemon on a host. While it runs it holds the lock on the file
// LockPath; if the lock is free, the owner has ended.
type Owner struct {
	ID       api.OwnerID
	Host     string // the host's name for itself
	LockPath string // an absolute path on that host
	PID      int    // informational: it may be reused; 0 for what HandOver made
	// Node is the node that it is a run of; empty if it is none's.
	Node api.NodeID
	// BeatAt is when the owner last renewed its lease; zero if it never did. EndedAt is zero
	// until the owner ended or was found dead.
	StartedAt, BeatAt, EndedAt time.Time
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

// Node is a node of a fleet: a data directory whose rows are in a database that others use, too.
type Node struct {
	ID api.NodeID
	// Name is unique.
	Name string
	// Owner is its current run.
	Owner api.OwnerID
	// Address is HOST:PORT of its listener for other nodes; empty if it has none.
	Address  string
	State    api.NodeState
	Capacity api.NodeCapacity
	// BeatAt is when it last renewed its lease, and Silence the time since then, both by the clock of the database. PutNode ignores them.
	BeatAt  time.Time
	Silence time.Duration
}

// Inherited is an owner that has ended, whose rows another one takes over.
type Inherited struct {
	Owner api.OwnerID
	// Node is the node that it was a run of; empty if it was none's. Name is empty if the node was removed.
	Node api.NodeID
	Name string
}

// Work is what another owner continues, all of it or nothing.
type Work struct {
	Session api.SessionID
	Plan    api.PlanID
	// Tasks have their journals.
	Tasks      []api.TaskID
	Workspaces []api.WorkspaceID
}

// Nodes are the rows of nodes.
type Nodes interface {
	// PutNode stores a node that starts, and renews its lease. KindExists if another node has the name.
	PutNode(ctx context.Context, n Node) error
	Node(ctx context.Context, id api.NodeID) (Node, error)
	// Nodes lists them by name.
	Nodes(ctx context.Context) ([]Node, error)
	// NodeOfOwner returns the node that a run is or was of; KindNotFound if it is none's.
	NodeOfOwner(ctx context.Context, owner api.OwnerID) (Node, error)
	// BeatNode renews the lease of a node, and returns its state. KindConflict if owner is not its current run, KindNotFound if it was
	// removed.
	BeatNode(ctx context.Context, id api.NodeID, owner api.OwnerID, c api.NodeCapacity) (api.NodeState, error)
	SetNodeState(ctx context.Context, id api.NodeID, state api.NodeState) (Node, error)
	RemoveNode(ctx context.Context, id api.NodeID) error
	// InheritOwners ends the current run of each node that was silent for longer than lease. Of owners that have ended, those of
	// silent nodes that left something unfinished, and all earlier runs of the heir's own node, become the heir's, unless they are
	// another's that has not ended. It returns those that are the heir's and left something unfinished. Each owner has one heir at a time.
	// judges is asked when the database has answered, for which InheritOwners may have waited: if it returns false, nothing happens. It may be nil.
	// If the clock of the database was set within the time of a lease, no node counts as silent.
	InheritOwners(ctx context.Context, heir api.OwnerID, lease time.Duration, judges func() bool) ([]Inherited, error)
	// HandOver gives work to another owner that lives: it belongs to a new owner of the same node, which has ended and whose heir the other one is.
	// KindConflict, and no change, if not all of it is unfinished and of the first owner, workspaces excepted, or if the other one has ended.
	HandOver(ctx context.Context, w Work, from, to api.OwnerID) error
	// HandedOver reports whether an owner was made by HandOver.
	HandedOver(ctx context.Context, owner api.OwnerID) (bool, error)
	// Lead makes an owner the one that does something for all nodes, for the time of a lease from now, unless another one is for longer.
	// It reports whether the owner is it.
	Lead(ctx context.Context, what string, owner api.OwnerID, lease time.Duration) (bool, error)
	// OwnersElsewhere lists all runs that are not of a node, ended ones too. A run of no node is of this one if it has this path of a lock.
	OwnersElsewhere(ctx context.Context, node api.NodeID, lockPath string) ([]api.OwnerID, error)
}

// Sandboxes are the rows of sandboxes.
type Sandboxes interface {
	// InsertSandbox stores a new sandbox. Its owner, if any, must be stored already.
	InsertSandbox(ctx context.Context, s api.Sandbox) error
	// UpdateSandbox replaces a row. A new owner increments the lease epoch and takes
	// over the sandbox's commands.
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
	// MoveSandbox makes a sandbox another owner's that is paused to disk, with its commands, if the row is as in s and the other owner
	// has not ended: else KindConflict. A row that was stored again since s was read is not moved, also if the move was sent before.
	MoveSandbox(ctx context.Context, s api.Sandbox, to api.OwnerID) error
	Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// ListSandboxes lists those that live; with all, the newest MaxListed of all.
	ListSandboxes(ctx context.Context, all bool) ([]api.Sandbox, error)
	// SandboxesOf lists those of an account that live, and SandboxesIn all that have or had a
	// workspace at /workspace.
	SandboxesOf(ctx context.Context, account string) ([]api.Sandbox, error)
	SandboxesIn(ctx context.Context, workspace api.WorkspaceID) ([]api.Sandbox, error)
	SandboxPage(ctx context.Context, account string, all bool, p api.PageRequest) (rows []api.Sandbox, next string, err error)
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
	ListExecs(ctx context.Context, sandbox api.SandboxID) ([]api.Exec, error)
	ExecPage(ctx context.Context, sandbox api.SandboxID, p api.PageRequest) (rows []api.Exec, next string, err error)
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
	// UnfinishedTasks lists tasks that are not done and have another owner or none. Here, and in
	// TaskPage and WalkTasks, each has its attempts.
	UnfinishedTasks(ctx context.Context, notOwner api.OwnerID) ([]api.Task, error)
	// TaskPage leaves tasks on repositories out if programs is set.
	TaskPage(ctx context.Context, account string, programs bool, p api.PageRequest) (rows []api.Task, next string, err error)
	// WalkTasks calls use with each task that was created at since or later, newest first, until
	// use fails or ctx ends. It holds few tasks in memory and blocks no writer while use runs.
	WalkTasks(ctx context.Context, account string, since time.Time, use func(api.Task) error) error
	// FindTaskOf searches one account only; "" means all of them.
	FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error)
}

// Workspaces are the rows of workspaces.
type Workspaces interface {
	InsertWorkspace(ctx context.Context, w api.Workspace) error
	UpdateWorkspace(ctx context.Context, w api.Workspace) error
	// ChangeWorkspace is as ChangeSnapshot.
	ChangeWorkspace(ctx context.Context, id api.WorkspaceID, change func(*api.Workspace) error) (api.Workspace, error)
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	// ListWorkspaces lists those that are not removed, of which NamedWorkspaces and KeptWorkspaces
	// select. The latter counts, up to most, what garbage collection never removes.
	ListWorkspaces(ctx context.Context) ([]api.Workspace, error)
	NamedWorkspaces(ctx context.Context, account, name string) ([]api.Workspace, error)
	KeptWorkspaces(ctx context.Context, account string, most int) (int, error)
	WorkspacePage(ctx context.Context, account string, p api.PageRequest) (rows []api.Workspace, next string, err error)
	// FindWorkspaceOf searches one account only; "" means all of them.
	FindWorkspaceOf(ctx context.Context, account, prefix string) (api.WorkspaceID, error)
}

// Snapshots are the rows of snapshots.
type Snapshots interface {
	InsertSnapshot(ctx context.Context, s api.Snapshot) error
	UpdateSnapshot(ctx context.Context, s api.Snapshot) error
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	// ChangeSnapshot reads a row, which change changes, and stores it, in one transaction; change may be called again.
	ChangeSnapshot(ctx context.Context, id api.SnapshotID, change func(*api.Snapshot) error) (api.Snapshot, error)
	// ListSnapshots lists those that live; with all, the newest MaxListed of all.
	ListSnapshots(ctx context.Context, all bool) ([]api.Snapshot, error)
	SnapshotPage(ctx context.Context, account string, all bool, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	// TemplatePage lists the operator's named snapshots that are ready.
	TemplatePage(ctx context.Context, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	// ChangeTemplates stores the rows that change returns, in one transaction. change gets the living
	// snapshots of an account that have a name, the newest first; it may be called again.
	ChangeTemplates(ctx context.Context, account string, change func([]api.Snapshot) ([]api.Snapshot, error)) error
	FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error)
	// FindSnapshotOf searches one account only; "" means all of them.
	FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error)
}

// Volumes are the rows of volumes. Account "" is the operator's own.
type Volumes interface {
	// InsertVolume stores a volume. KindExists if its account has one of that name, KindExhausted
	// if it has most already.
	InsertVolume(ctx context.Context, v api.Volume, most int) error
	Volume(ctx context.Context, id api.VolumeID) (api.Volume, error)
	// VolumesOf lists those of one account, and ListVolumes all.
	VolumesOf(ctx context.Context, account string) ([]api.Volume, error)
	ListVolumes(ctx context.Context) ([]api.Volume, error)
	SetVolumeNode(ctx context.Context, id api.VolumeID, node api.NodeID) error
	// RemoveVolume removes a row. KindNotFound if there is none.
	RemoveVolume(ctx context.Context, id api.VolumeID) error
}

// Repositories are the rows of connected repositories.
type Repositories interface {
	// InsertRepository stores a repository. KindExists if its account has another one of
	// that name that is not removed.
	InsertRepository(ctx context.Context, r api.Repository) error
	// ChangeRepository reads a repository, has it changed, and stores it, while nothing else changes it: several daemons may. It may call change
	// more than once, which must not use the store. KindNotFound if there is none, KindConflict if its state is final and would change.
	ChangeRepository(ctx context.Context, id api.RepositoryID, change func(*api.Repository) error) (api.Repository, error)
	Repository(ctx context.Context, id api.RepositoryID) (api.Repository, error)
	// ListRepositories and RepositoryPage list those that are not removed, and NamedRepository
	// returns one of them.
	ListRepositories(ctx context.Context) ([]api.Repository, error)
	RepositoryPage(ctx context.Context, account string, p api.PageRequest) (rows []api.Repository, next string, err error)
	NamedRepository(ctx context.Context, account, name string) (api.Repository, error)
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
	// Key returns a key, revoked or not.
	Key(ctx context.Context, id api.KeyID) (api.Key, error)
	// KeyPage lists those that are not revoked, or all.
	KeyPage(ctx context.Context, all bool, p api.PageRequest) (rows []api.Key, next string, err error)
	FindKey(ctx context.Context, prefix string) (api.KeyID, error)
}

// SignIn is a browser that is signed in to the console with a key. It has no owner.
type SignIn struct {
	// Hash is that of what the browser shows, which is not kept.
	Hash      string
	Key       api.KeyID
	CreatedAt time.Time
	// UsedAt is the time of the last request, to about a minute.
	UsedAt time.Time
}

// SignIns are the browsers that are signed in.
type SignIns interface {
	// InsertSignIn stores a sign-in. It removes those that were created before createdAfter or used before usedAfter,
	// and those of the key but the newest most.
	InsertSignIn(ctx context.Context, s SignIn, createdAfter, usedAfter time.Time, most int) error
	// SignIn returns the sign-in with a hash.
	SignIn(ctx context.Context, hash string) (SignIn, error)
	// UseSignIn sets the time of the last request. It is no error if there is no such sign-in any more.
	UseSignIn(ctx context.Context, hash string, at time.Time) error
	// RemoveSignIn removes a sign-in, if it is there.
	RemoveSignIn(ctx context.Context, hash string) error
}

// Once is an idempotent request: its key within an account, its digest, and its answer when
// it has one.
type Once struct {
	Account, Key string
	Request      []byte // a digest
	// Done is true once it is answered. Answer is nil if it was too long to store.
	Done   bool
	Answer []byte
	// At ExpiresAt the row expires.
	CreatedAt, ExpiresAt time.Time
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
	EgressPage(ctx context.Context, account string, f api.EgressFilter, p api.PageRequest) (rows []api.EgressDecision, next string, err error)
}

// Secrets are the rows of secrets, and the records of their uses. Account "" is the operator's
// own, also in lists; a name is unique within its account. Rows of uses do not refer to a secret:
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
	SecretPage(ctx context.Context, account string, p api.PageRequest) (rows []secrets.Secret, next string, err error)
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
	SecretUsePage(ctx context.Context, account string, f secrets.UseFilter, p api.PageRequest) (rows []secrets.Use, next string, err error)
}

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
	// RewindRun removes a step of an owner's run and those that first began after it, of which there are none if the step is not there.
	// KindConflict, and no change, if one of them is keep.
	RewindRun(ctx context.Context, run string, owner api.OwnerID, step, keep string) error
	// EndRun ends a run and removes its steps. It returns the number of the event.
	EndRun(ctx context.Context, run string, owner api.OwnerID, end RunEnd) (seq int64, err error)
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
	LessonPage(ctx context.Context, account, scope string, p api.PageRequest) (rows []api.Lesson, next string, err error)
	// FindLesson returns the lesson whose identifier begins with a prefix, with or without its letter.
	FindLesson(ctx context.Context, account, prefix string) (api.Lesson, error)
	RemoveLesson(ctx context.Context, account, id string) (api.Lesson, error)
}

// LessonVector is the vector of the failure of a lesson.
type LessonVector struct {
	// ID is that of the lesson, and Failure the text that the vector is of.
	ID, Failure string
	// Model made it. Its vectors all have the dimension of the first that was stored.
	Model string
	// Values is the vector; nil says that the model refused the text.
	Values []float32
}

// VectorQuery asks for the lessons of a scope whose vectors are near to one.
type VectorQuery struct {
	Account, Scope string
	// Fingerprint is that of the failure itself, whose lesson is left out.
	Fingerprint string
	Model       string
	Values      []float32
	// Least is the least cosine similarity, and Limit the most lessons.
	Least float64
	Limit int
}

// LessonVectors are the vectors of lessons. They are removed with their lessons.
type LessonVectors interface {
	// LessonsToEmbed counts the lessons of a scope that have a vector of a model, and returns the newest of those that have
	// none and were not refused.
	LessonsToEmbed(ctx context.Context, account, scope, model string, limit int) (have int, missing []api.Lesson, err error)
	// PutLessonVectors stores vectors in place of those before. Those of lessons that are gone, or have another failure by
	// now, are left out. The error is KindInvalid for a vector that has another dimension than those of its model.
	PutLessonVectors(ctx context.Context, account string, all []LessonVector) error
	// NearLessons returns lessons by their similarity, the nearest first. It reads at most api.MaxLessonsPerScope vectors. The
	// error is KindInvalid for a vector of another dimension.
	NearLessons(ctx context.Context, q VectorQuery) ([]api.Lesson, error)
}

// Documents are the rows of stored documents, one for each version. Account "" is the operator's own, and repository "" the
// documents of the account itself.
type Documents interface {
	// PutDocument stores the next version of a document and returns it, and removes its oldest versions beyond
	// api.MaxDocumentVersions. KindConflict if ifVersion is not nil and not the current version (0 if there is none),
	// KindExhausted if the document is new and its account has api.MaxDocuments.
	PutDocument(ctx context.Context, d api.StoredDocument, ifVersion *int) (api.StoredDocument, error)
	// Document returns a version of a document, 0 for the current one. KindNotFound if there is none.
	Document(ctx context.Context, account, repository, name string, version int) (api.StoredDocument, error)
	// DocumentVersions lists the versions of a document without their texts, the newest first.
	DocumentVersions(ctx context.Context, account, repository, name string) ([]api.StoredDocument, error)
	// DocumentsOf lists the current versions of all documents of an account without their texts, by repository and name,
	// those of the account itself first.
	DocumentsOf(ctx context.Context, account string) ([]api.StoredDocument, error)
	// RemoveDocument removes a document with its versions, and returns what was current.
	RemoveDocument(ctx context.Context, account, repository, name string) (api.StoredDocument, error)
	// DocumentBytes returns the length of the texts of an account, of all versions.
	DocumentBytes(ctx context.Context, account string) (int64, error)
}

// MaxSessionDoc is the maximum size of the document of a session or of one of its turns, in bytes.
const MaxSessionDoc = 1 << 20

// Session is a session as it is stored: what is looked for, and a document of its user.
type Session struct {
	ID api.SessionID
	// Account owns it; empty is the operator's own. Key is unique among the sessions of an account that are not closed.
	Account, Key string
	Owner        api.OwnerID
	Closed       bool
	CreatedAt    time.Time
	// EndedAt is zero until it is closed.
	EndedAt time.Time
	Doc     []byte
}

// SessionTurn is a turn of a session as it is stored. N counts from 1.
type SessionTurn struct {
	N   int
	Doc []byte
}

// Sessions are the rows of conversations with agents. What an owner stores of a session that is not its own, or that is closed, is
// KindConflict.
type Sessions interface {
	// InsertSession stores a session with turns. KindExists if its ID or its key is taken, KindExhausted if the account has most
	// sessions that are not closed.
	InsertSession(ctx context.Context, s Session, most int, turns ...SessionTurn) error
	// UpdateSession replaces the row of a session of owner, whose owner may change, and stores turns, in one transaction.
	UpdateSession(ctx context.Context, owner api.OwnerID, s Session, turns ...SessionTurn) error
	// Session reads one, SessionByKey one that is not closed; KindNotFound if there is none.
	Session(ctx context.Context, id api.SessionID) (Session, error)
	SessionByKey(ctx context.Context, account, key string) (Session, error)
	// SessionsOf lists those of an account, the newest first, at most limit; closed ones too if all is set.
	SessionsOf(ctx context.Context, account string, all bool, limit int) ([]Session, error)
	// OpenSessions lists the sessions of everybody that are not closed, the oldest first.
	OpenSessions(ctx context.Context) ([]Session, error)
	// SessionTurns lists the turns of a session by their numbers.
	SessionTurns(ctx context.Context, id api.SessionID) ([]SessionTurn, error)
	// PruneSessions removes closed sessions, with their turns and events, that ended before a time. It returns the number.
	PruneSessions(ctx context.Context, before time.Time) (int, error)
}

// MaxPlanDoc is the maximum size of the document of a plan or of one of its items, in bytes.
const MaxPlanDoc = 1 << 20

// Plan is a plan as it is stored: what is looked for, and a document of its user.
type Plan struct {
	ID api.PlanID
	// Account owns it; empty is the operator's own. Repository names the repository that it changes.
	Account, Repository string
	Owner               api.OwnerID
	Done                bool
	CreatedAt           time.Time
	// EndedAt is zero until it is done.
	EndedAt time.Time
	Doc     []byte
	// Items is how many items it has, for InsertPlan and UpdatePlan: those with a greater number are removed. 0 removes none.
	Items int
	// Events are appended to the log of the plan with the row, for InsertPlan and UpdatePlan, which set their numbers.
	Events []api.Event
}

// PlanItem is an item of a plan as it is stored. N counts from 1.
type PlanItem struct {
	N   int
	Doc []byte
}

// Plans are the rows of plans. What an owner stores of a plan that is not its own is KindConflict.
type Plans interface {
	// InsertPlan stores a plan with items and events. KindExists if its ID is taken, KindExhausted if the account has most plans that are not done.
	InsertPlan(ctx context.Context, p Plan, most int, items ...PlanItem) error
	// UpdatePlan replaces the row of a plan of owner, whose owner may change, and stores items and events, in one transaction.
	UpdatePlan(ctx context.Context, owner api.OwnerID, p Plan, items ...PlanItem) error
	// Plan reads one; KindNotFound if there is none.
	Plan(ctx context.Context, id api.PlanID) (Plan, error)
	// PlansOf lists those of an account, the newest first, at most limit; done ones too if all is set.
	PlansOf(ctx context.Context, account string, all bool, limit int) ([]Plan, error)
	// OpenPlans lists the plans of everybody that are not done, the oldest first: of a repository, or of all for "".
	OpenPlans(ctx context.Context, repository string) ([]Plan, error)
	// PlanItems lists the items of a plan by their numbers.
	PlanItems(ctx context.Context, id api.PlanID) ([]PlanItem, error)
	// PrunePlans removes plans that are done, with their items and events, that ended before a time. It returns the number.
	PrunePlans(ctx context.Context, before time.Time) (int, error)
}

// Webhooks are the rows of webhooks and their deliveries, and the events that they deliver. Account "" is the
// operator's own.
type Webhooks interface {
	// InsertWebhook stores a webhook, whose position is after the newest event. secret is kept encrypted.
	// KindExhausted if the account has most others already.
	InsertWebhook(ctx context.Context, w api.Webhook, secret string, most int) error
	// UpdateWebhook replaces the name, the address, the types and whether it is enabled, and the secret unless it is
	// "". One that was not enabled before continues after the newest event.
	UpdateWebhook(ctx context.Context, w api.Webhook, secret string) error
	Webhook(ctx context.Context, account, id string) (api.Webhook, error)
	// WebhooksOf lists those of an account, and EnabledWebhooks those of everybody that are enabled, the oldest first.
	WebhooksOf(ctx context.Context, account string) ([]api.Webhook, error)
	EnabledWebhooks(ctx context.Context) ([]api.Webhook, error)
	// WebhookSecret returns the secret. KindConflict if the key of the store does not fit.
	WebhookSecret(ctx context.Context, account, id string) (string, error)
	// RemoveWebhook removes a webhook with its deliveries.
	RemoveWebhook(ctx context.Context, account, id string) error
	// PutDelivery stores an attempt, and removes those of the webhook but the newest most. The last attempt of an
	// event moves the position of the webhook. KindNotFound if the webhook is removed.
	PutDelivery(ctx context.Context, d api.WebhookDelivery, most int) error
	// Deliveries lists attempts, the newest first.
	Deliveries(ctx context.Context, account, webhook string, limit int) ([]api.WebhookDelivery, error)
	// LifecycleEvents lists events. They are stored with the events of sandboxes' logs, and removed with them.
	LifecycleEvents(ctx context.Context, f api.LifecycleFilter) ([]api.LifecycleEvent, error)
	// NewestLifecycle returns the largest Seq of all accounts; 0 if there is none.
	NewestLifecycle(ctx context.Context) (int64, error)
}

// Retention limits the ended rows of each account: those that exceed it are removed. Rows
// that have not ended are always kept.
type Retention struct {
	// Rows is the maximum number of sandboxes, and of snapshots, of an account; Execs
	// that of its commands. The last to end are kept. Decisions is the maximum number of
	// its decisions about outgoing connections, of its uses of secrets, and of the sums that
	// days and tasks used of budgets; they end when they are made, and sums of a task when it
	// has ended.
	Rows, Execs, Decisions int
	// Bytes is the maximum stored size of the rows of each kind.
	Bytes int64
	// Before removes rows that ended before it; the zero time removes none.
	Before time.Time
}

// Pruned counts the rows that a retention removed.
type Pruned struct{ Sandboxes, Execs, Snapshots, Repositories, Events, Tasks, Decisions, Uses, Spent int }

// Plus adds two counts.
func (p Pruned) Plus(q Pruned) Pruned {
	return Pruned{p.Sandboxes + q.Sandboxes, p.Execs + q.Execs, p.Snapshots + q.Snapshots, p.Repositories + q.Repositories, p.Events + q.Events, p.Tasks + q.Tasks, p.Decisions + q.Decisions, p.Uses + q.Uses, p.Spent + q.Spent}
}

// Zero reports whether nothing was removed.
func (p Pruned) Zero() bool { return p == Pruned{} }

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

// Kind is a kind of rows that have files on the disk.
type Kind string

const (
	KindTask      Kind = "task"
	KindSession   Kind = "session"
	KindWorkspace Kind = "workspace"
	KindSnapshot  Kind = "snapshot"
)

// Amounts is what accounts store. Account "" is the operator's own.
type Amounts interface {
	// Accounts lists the accounts that have rows of a Kind or stored documents, sorted.
	Accounts(ctx context.Context) ([]string, error)
	// StoredIDs lists the rows of a kind of an account that may have files: those of workspaces and snapshots that are
	// not removed, and all tasks and sessions.
	StoredIDs(ctx context.Context, kind Kind, account string) ([]string, error)
	// EventBytes returns the size of the events of an account's tasks, sandboxes, sessions and plans.
	EventBytes(ctx context.Context, account string) (int64, error)
}

// SharedValues are secrets that all nodes with the database share. They are kept encrypted.
type SharedValues interface {
	// SharedValue reads one. KindConflict if the key of the store does not fit.
	SharedValue(ctx context.Context, name string) ([]byte, error)
	// ShareValue stores a value unless the name has one, and returns the one that it has then.
	ShareValue(ctx context.Context, name string, value []byte) ([]byte, error)
}

// HookEvents are the requests for tasks that forges sent. They end with the row of their repository.
type HookEvents interface {
	// InsertHookEvent stores a request. KindExists if the repository has one with the same cause, KindNotFound if there is no such
	// repository. It removes requests of the repository from before a time, and of those that were refused all but the newest most.
	InsertHookEvent(ctx context.Context, e api.HookEvent, before time.Time, most int) error
	// UpdateHookEvent replaces a request. KindConflict if its state does not allow that.
	UpdateHookEvent(ctx context.Context, e api.HookEvent) error
	// HookEvent returns a request by its cause. KindNotFound if there is none.
	HookEvent(ctx context.Context, repository api.RepositoryID, cause string) (api.HookEvent, error)
	// HookEventsOf lists the requests of a repository since a time, the newest first, at most limit; 0 is no limit.
	HookEventsOf(ctx context.Context, repository api.RepositoryID, since time.Time, limit int) ([]api.HookEvent, error)
	// OpenHookEvents lists those of all repositories that are starting or started.
	OpenHookEvents(ctx context.Context) ([]api.HookEvent, error)
}
