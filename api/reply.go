package api

// ReplyTask answers the question of a task that ended with needs_human. A new task
// continues the work with its request and models: for a repository in the same
// workspace, for a program from the last attempt. Budgets and rounds start anew. A
// zero field keeps the value of the task that is continued.
type ReplyTask struct {
	// Reply is the answer, 1 byte to 16 KiB.
	Reply string `json:"reply"`
	// Attempts is the maximum number of attempts of a program (1 to 10).
	Attempts int `json:"attempts,omitempty"`
	// Rounds, Budget, TestsMayChange and LocksMayChange are those of RepoTask.
	Rounds         int    `json:"rounds,omitempty"`
	Budget         Budget `json:"budget,omitzero"`
	TestsMayChange bool   `json:"testsMayChange,omitempty"`
	LocksMayChange bool   `json:"locksMayChange,omitempty"`
}

// MaxReplies is the maximum length of a chain of continued tasks.
const MaxReplies = 20
