package storetest

import (
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// Run runs the suite. open returns a new, empty store for each test and closes it at the end
// of the test.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s store.Store)
	}{
		{"Owners", testOwners},
		{"Lease", testLease},
		{"Nodes", testNodes},
		{"Heirs", testHeirs}, {"Move", testMove}, {"HandOver", testHandOver}, {"HandOverTogether", testHandOverTogether},
		{"RoundTrip", testRoundTrip},
		{"ZeroTimes", testZeroTimes},
		{"NotFound", testNotFound},
		{"Exists", testExists},
		{"Invalid", testInvalid},
		{"References", testReferences},
		{"SandboxStates", testSandboxStates},
		{"ExecStates", testExecStates},
		{"TaskStates", testTaskStates},
		{"SandboxLists", testSandboxLists},
		{"Provisioned", testProvisioned},
		{"ExecLists", testExecLists},
		{"TaskLists", testTaskLists},
		{"WalkTasks", testWalkTasks},
		{"Pages", testPages},
		{"PageBytes", testPageBytes},
		{"Prune", testPrune},
		{"PruneMany", testPruneMany},
		{"PruneTasks", testPruneTasks},
		{"Egress", testEgress},
		{"EgressFilter", testEgressFilter},
		{"EgressPages", testEgressPages},
		{"PruneEgress", testPruneEgress},
		{"SharedValues", testSharedValues},
		{"Secrets", testSecrets},
		{"SecretRenewal", testSecretRenewal},
		{"SecretPages", testSecretPages},
		{"SecretUses", testSecretUses},
		{"SecretVersions", testSecretVersions},
		{"PruneSecretUses", testPruneSecretUses},
		{"SecretBudgets", testSecretBudgets},
		{"SecretBudgetsConcurrent", testSecretBudgetsConcurrent},
		{"PruneSecretSpent", testPruneSecretSpent},
		{"Attempts", testAttempts},
		{"Find", testFind},
		{"FindAgainstModel", testFindAgainstModel},
		{"Workspaces", testWorkspaces},
		{"WorkspaceStates", testWorkspaceStates},
		{"Snapshots", testSnapshots},
		{"Templates", testTemplates},
		{"SnapshotStates", testSnapshotStates},
		{"Repositories", testRepositories},
		{"RepositoryStates", testRepositoryStates},
		{"RepositoryNames", testRepositoryNames},
		{"RepositoryChanges", testRepositoryChanges},
		{"Once", testOnce},
		{"OnceBounded", testOnceBounded},
		{"OnceConcurrent", testOnceConcurrent},
		{"Keys", testKeys},
		{"SignIns", testSignIns},
		{"Accounts", testAccounts},
		{"Amounts", testAmounts},
		{"Events", testEvents},
		{"EventPages", testEventPages},
		{"ConcurrentAppend", testConcurrentAppend},
		{"ConcurrentFinal", testConcurrentFinal},
		{"Runs", testRuns},
		{"RunSteps", testRunSteps},
		{"RunOwners", testRunOwners},
		{"RunEnd", testRunEnd},
		{"Lessons", testLessons},
		{"LessonsFull", testLessonsFull},
		{"LessonVectors", testLessonVectors},
		{"Canceled", testCanceled},
		{"Sessions", testSessions},
		{"Documents", testDocuments},
		{"Plans", testPlans},
		{"Volumes", testVolumes},
		{"Lifecycle", testLifecycle},
		{"Webhooks", testWebhooks},
		{"HookEvents", testHookEvents},
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

func newOwner(t *testing.T, s store.Store) api.OwnerID {
	t.Helper()
	o := store.Owner{ID: api.NewOwnerID(), Host: "here", LockPath: "/locks/o", PID: 7, StartedAt: began}
	must(t, s.InsertOwner(t.Context(), o))
	return o.ID
}

func newSandbox(t *testing.T, s store.Store, change func(*api.Sandbox)) api.Sandbox {
	t.Helper()
	b := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, CreatedAt: began, ExpiresAt: began.Add(time.Minute)}
	if change != nil {
		change(&b)
	}
	must(t, s.InsertSandbox(t.Context(), b))
	return b
}

func newExec(t *testing.T, s store.Store, change func(*api.Exec)) api.Exec {
	t.Helper()
	e := api.Exec{ID: api.NewExecID(), Args: []string{"true"}, State: api.ExecRunning, StartedAt: began}
	change(&e)
	must(t, s.InsertExec(t.Context(), e))
	return e
}

func newTask(t *testing.T, s store.Store, change func(*api.Task)) api.Task {
	t.Helper()
	k := api.Task{ID: api.NewTaskID(), State: api.TaskRunning, CreatedAt: began}
	if change != nil {
		change(&k)
	}
	must(t, s.InsertTask(t.Context(), k))
	return k
}
