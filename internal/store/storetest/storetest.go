package storetest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Store is all that a store of Hortus can do. Consumers declare less.
type Store interface {
	InsertOwner(ctx context.Context, o store.Owner) error
	Owners(ctx context.Context) ([]store.Owner, error)
	EndOwner(ctx context.Context, id api.OwnerID, at time.Time) error

	InsertSandbox(ctx context.Context, s api.Sandbox) error
	UpdateSandbox(ctx context.Context, s api.Sandbox) error
	Sandbox(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Sandboxes(ctx context.Context, f store.SandboxFilter) ([]api.Sandbox, error)
	SandboxPage(ctx context.Context, f store.SandboxFilter) ([]api.Sandbox, store.Cursor, error)
	FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error)
	ProvisionedOf(ctx context.Context, account, task string, ended bool) (api.Sandbox, error)

	InsertExec(ctx context.Context, e api.Exec) error
	UpdateExec(ctx context.Context, e api.Exec) error
	Exec(ctx context.Context, id api.ExecID) (api.Exec, error)
	Execs(ctx context.Context, f store.ExecFilter) ([]api.Exec, error)
	ExecPage(ctx context.Context, f store.ExecFilter) ([]api.Exec, store.Cursor, error)

	InsertTask(ctx context.Context, t api.Task) error
	UpdateTask(ctx context.Context, t api.Task) error
	Task(ctx context.Context, id api.TaskID) (api.Task, error)
	Tasks(ctx context.Context, f store.TaskFilter) ([]api.Task, error)
	TaskPage(ctx context.Context, f store.TaskFilter) ([]api.Task, store.Cursor, error)
	WalkTasks(ctx context.Context, f store.TaskFilter, use func(api.Task) error) error
	FindTask(ctx context.Context, prefix string) (api.TaskID, error)
	PutAttempt(ctx context.Context, task api.TaskID, a api.Attempt) error

	InsertWorkspace(ctx context.Context, w api.Workspace) error
	UpdateWorkspace(ctx context.Context, w api.Workspace) error
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	Workspaces(ctx context.Context, f store.WorkspaceFilter) ([]api.Workspace, error)

	InsertSnapshot(ctx context.Context, s api.Snapshot) error
	UpdateSnapshot(ctx context.Context, s api.Snapshot) error
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	Snapshots(ctx context.Context, f store.SnapshotFilter) ([]api.Snapshot, error)
	SnapshotPage(ctx context.Context, f store.SnapshotFilter) ([]api.Snapshot, store.Cursor, error)
	FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error)

	Prune(ctx context.Context, keep store.Retention) (store.Pruned, error)
	PruneTasks(ctx context.Context, keep store.Retention, fold func([]byte, api.Task) ([]byte, error)) (store.Pruned, error)
	WalkTallies(ctx context.Context, account string, since time.Time, use func([]byte) error) error

	BeginOnce(ctx context.Context, o store.Once, most int) (store.Once, bool, error)
	EndOnce(ctx context.Context, o store.Once) error
	ForgetOnce(ctx context.Context, account, key string) error

	FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error)
	FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error)
	FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error)

	InsertKey(ctx context.Context, k api.Key, hash string) error
	RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (api.Key, error)
	Key(ctx context.Context, id api.KeyID) (api.Key, error)
	KeyByHash(ctx context.Context, hash string) (api.Key, error)
	Keys(ctx context.Context, f store.KeyFilter) ([]api.Key, error)
	KeyPage(ctx context.Context, f store.KeyFilter) ([]api.Key, store.Cursor, error)
	FindKey(ctx context.Context, prefix string) (api.KeyID, error)

	AppendEvent(ctx context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error)
	ReadEvents(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
}

// Run runs the suite. open gives a fresh, empty store for each test and closes
// it with the test.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s Store)
	}{
		{"Owners", testOwners},
		{"RoundTrip", testRoundTrip},
		{"ZeroTimes", testZeroTimes},
		{"NotFound", testNotFound},
		{"Exists", testExists},
		{"Invalid", testInvalid},
		{"References", testReferences},
		{"SandboxStates", testSandboxStates},
		{"ExecStates", testExecStates},
		{"TaskStates", testTaskStates},
		{"SandboxFilter", testSandboxFilter},
		{"Provisioned", testProvisioned},
		{"ExecFilter", testExecFilter},
		{"TaskFilter", testTaskFilter},
		{"WalkTasks", testWalkTasks},
		{"Pages", testPages},
		{"PageBytes", testPageBytes},
		{"Prune", testPrune},
		{"PruneMany", testPruneMany},
		{"PruneTasks", testPruneTasks},
		{"Attempts", testAttempts},
		{"Find", testFind},
		{"FindAgainstModel", testFindAgainstModel},
		{"Workspaces", testWorkspaces},
		{"WorkspaceStates", testWorkspaceStates},
		{"Snapshots", testSnapshots},
		{"SnapshotStates", testSnapshotStates},
		{"Once", testOnce},
		{"OnceBounded", testOnceBounded},
		{"OnceConcurrent", testOnceConcurrent},
		{"Keys", testKeys},
		{"Accounts", testAccounts},
		{"Events", testEvents},
		{"EventPages", testEventPages},
		{"ConcurrentAppend", testConcurrentAppend},
		{"ConcurrentFinal", testConcurrentFinal},
		{"Canceled", testCanceled},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// began is the beginning of the suite's rows, with microseconds to lose.
var began = time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind api.Kind) {
	t.Helper()
	if api.KindOf(err) != kind {
		t.Fatalf("got %v (kind %q), want kind %q", err, api.KindOf(err), kind)
	}
}

func newOwner(t *testing.T, s Store) api.OwnerID {
	t.Helper()
	o := store.Owner{ID: api.NewOwnerID(), Host: "here", LockPath: "/locks/o", PID: 7, StartedAt: began}
	must(t, s.InsertOwner(t.Context(), o))
	return o.ID
}

func newSandbox(t *testing.T, s Store, change func(*api.Sandbox)) api.Sandbox {
	t.Helper()
	b := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: began, ExpiresAt: began.Add(time.Minute)}
	if change != nil {
		change(&b)
	}
	must(t, s.InsertSandbox(t.Context(), b))
	return b
}

func newExec(t *testing.T, s Store, change func(*api.Exec)) api.Exec {
	t.Helper()
	e := api.Exec{ID: api.NewExecID(), Args: []string{"true"}, State: api.ExecRunning, StartedAt: began}
	change(&e)
	must(t, s.InsertExec(t.Context(), e))
	return e
}

func newTask(t *testing.T, s Store, change func(*api.Task)) api.Task {
	t.Helper()
	k := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, CreatedAt: began}
	if change != nil {
		change(&k)
	}
	must(t, s.InsertTask(t.Context(), k))
	return k
}
