// Package repo works on a request about a real repository, from its clone to its
// delivery:
//
//	fetch -> checkout -> setup -> workspace -> gate as it was
//	  -> agent in a sandbox over the workspace -> changes, checked -> commit
//	  -> gate in a clean sandbox over the commit -> again, or deliver
//
// Success is the exit code of the gate, which runs in a sandbox that the agent
// never saw, over the commit that would be delivered and nothing else. Where the
// agent touched a test, or a file that rules over tests, the gate must pass with
// those files as they were too. What a model says of its work decides nothing.
//
// What leaves a workspace leaves it as git objects that the host made from checked
// names and contents; no file, link or program of the workspace is ever followed or
// run outside a sandbox. The asking person's own checkout is not written.
//
// The rounds of a task with a command that ends it are passes: each is a new conversation over the same workspace, which learns from the
// host how far the work is.
//
// A task with several candidates prepares its repositories once; each candidate has the rest for itself, and the result of
// the best one, by package best, is that of the task.
//
// What the work needs of others the package declares itself: [Sandboxes] with their files, the [Setup] of a repository, agents that are
// programs ([Runtimes]), [Sessions], and a [Deliverer].
//
//	runner := repo.New(repo.Config{Git: cache, Sandboxes: sandboxes, Deliverer: deliverer, Setup: setup})
//	end := runner.Run(ctx, repo.Job{Task: task, Model: model, Dir: dir, Emit: log, Save: save})
//
// Inside, a project has the repositories of a task at their commits. An attempt is the work of one agent on a project, in rounds: the
// only one, or that of a candidate. Its gates decide about it, its sandboxSlot has the sandbox of its agent, and a conversation what the
// task continues if it is a turn of a session.
//
// # Lives
//
// With a journal ([Job].Run) the steps of a task are recorded. Run is then called again after the death of the
// process, goes through what is recorded without doing it again, and continues behind it. What it decides by is
// recorded or follows from what is recorded; the time is that of the journal.
//
// With an [Archive] the files of each round are stored for other nodes of a fleet. There the journal is taken back to the last round whose files
// are stored, before Run is called; the repositories are fetched again, and get the commits that lie beside the workspace.
//
// A [Runner] is shared and holds nothing of a task. One call of Run is one task:
// its sandboxes end before Run does, also when its context ends, and the proof is
// in the result. The workspace stays, as does the branch; whatever there was when
// the work was interrupted is committed, and marked.
//
// The package must not know how sandboxes isolate, which forge or model there is,
// who stores a task or how events travel.
//
// # Reasons
//
// Several repositories are one tree, by a commit of the host's whose tree has each in a
// directory, in a repository that borrows the members' objects. So everything that works on a
// task's commit stays as it is, and git's own trees divide the result. Nothing is pushed before
// the policy of all members allows it; a push that fails later leaves the others pushed.
package repo
