// Package agent holds the four roles that turn a sentence into a verified
// program, and the pipeline that runs them in order.
//
//	PlanRequest -> Planner -> ExecutionPlan -> Coder -> CodeArtifact
//	  -> Executor -> ExecutionResult -> Debugger -> Diagnosis -> CodeArtifact ...
//
// Roles talk in these types of the api package and in nothing else, so each can
// be run alone from a hand-made message. The Planner alone sees the sentence;
// the Executor alone touches a sandbox, through [Sandboxes]; the model sees what
// its role sees, and its answers are parsed strictly and bounded before anybody
// uses them.
//
// # Lives
//
// A [Pipeline] serves one task and is used once. It starts no goroutine: all it
// does happens in the call of Run, and ends when its context does. Every attempt
// has a sandbox of its own, which is closed before the next attempt begins; the
// only one that can outlive Run is the last, when a person asked to keep it.
//
// The package must not know how sandboxes are made, who stores a task, how
// events travel, or which model answers.
//
// # Reasons
//
// A plan may repeat the request: a check that refused it was no boundary and cost three billed
// calls. What holds is that the program runs in a sandbox and that its exit code and output
// decide.
package agent
