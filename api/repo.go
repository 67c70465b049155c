package api

import (
	"strings"
	"time"
)

// RepoTask requests work on a repository instead of a program of its own.
type RepoTask struct {
	// URL is where the repository is: an absolute path of the daemon's machine,
	// or https://, ssh://, user@host:path, file://.
	URL string `json:"url"`
	// Ref is a branch, a tag or a commit; empty for what the repository's HEAD
	// names.
	Ref string `json:"ref,omitempty"`
	// Name is the directory of the workspace that has the repository, if Also has others.
	Name string `json:"name,omitempty"`
	// Also are further repositories that the task works on. Then each repository, this one too,
	// has a directory of the workspace, and its result is a branch and a merge request of its
	// own.
	Also []TaskRepository `json:"also,omitempty"`
	// Verify is the shell command whose exit code decides; empty to find the
	// repository's own test command, or those of all repositories.
	Verify string `json:"verify,omitempty"`
	// Until is a shell command that ends the work when it passes; empty for none. Then each round is a pass: a new agent, which knows
	// nothing of what was said before, in the same workspace, with a file in which the platform says how far the work is. The command
	// must pass beside the gate; if Verify is empty, it is the gate. RepoResult.Stopped says why the passes ended. Until excludes
	// Rounds, Best, Mutant, PrepareOnly, GateOnly and a schema.
	Until string `json:"until,omitempty"`
	// Passes is the maximum number of passes, 1 to 100; the default is 10.
	Passes int `json:"passes,omitempty"`
	// Agent is who works: empty or "hortus" for Hortus's own agent, or the name of a program that
	// is started in the sandbox, such as "claude".
	Agent string `json:"agent,omitempty"`
	// Issue is the address of an issue's page at a forge that the daemon knows. Its text, which is untrusted, is read before the work
	// and belongs to the request. A merge request in the same repository closes it.
	Issue string `json:"issue,omitempty"`
	// Context are documents that belong to the request. They are untrusted.
	Context []Document `json:"context,omitempty"`
	// Documents name further ones: stored documents of the repositories or else of the account, and files in .hortus/context of
	// the commit by their paths in the workspace. A stored task has the text and the version of stored ones in Context, and
	// here the paths.
	Documents []string `json:"documents,omitempty"`
	// Author signs the commits; Hortus is their co-author.
	Author Identity `json:"author"`
	Budget Budget   `json:"budget,omitzero"`
	// Rounds bounds how often a failed gate goes back to the agent; the default
	// is 2, and -1 means never.
	Rounds int `json:"rounds,omitempty"`
	// Mutant, when set, is a patch that breaks the repository: the gate
	// must fail once it is applied, which shows that new tests test something.
	Mutant string `json:"mutant,omitempty"`
	// Overlap is what happens if a plan, another task or a session of the account changes the same files of a repository. The default of a
	// task is OverlapAllow, which tells who does; that of a plan is OverlapWait.
	Overlap Overlap `json:"overlap,omitempty"`
	// TestsMayChange is true if the gate with the original tests is shown but does
	// not decide.
	TestsMayChange bool `json:"testsMayChange,omitempty"`
	// LocksMayChange is true if the request is about the packages that lock files name: one may change without its manifest, and a
	// changed one is no caution.
	LocksMayChange bool `json:"locksMayChange,omitempty"`
	// Strict is true if each failed test of the gate decides, also one that failed before the work, and if none is run again.
	Strict bool `json:"strict,omitempty"`
	// Push delivers the branch to Remote, MergeRequest opens a request for it
	// too. Remote is empty for URL itself.
	Push         bool   `json:"push,omitempty"`
	MergeRequest bool   `json:"mergeRequest,omitempty"`
	Remote       string `json:"remote,omitempty"`
	// Target is the branch that the merge request wants to change; empty for
	// the branch that Ref names, or else the forge's default.
	Target string `json:"target,omitempty"`
	Draft  bool   `json:"draft,omitempty"`
	// NoSetup leaves out the setup of the repository: what its lock files or its
	// .hortus/setup.yaml need is not installed.
	NoSetup bool `json:"noSetup,omitempty"`
	// PrepareOnly ends the task after the setup, without an agent and without a gate.
	PrepareOnly bool `json:"prepareOnly,omitempty"`
	// GateOnly ends the task after the gate on the commit as it is, without an agent: a dry run of the gate. The task is verified if it
	// passed, and failed otherwise.
	GateOnly bool `json:"gateOnly,omitempty"`
	// Fresh has what an earlier task found out found out again, for later tasks too: with PrepareOnly what is installed, otherwise how the
	// gate ends before the work.
	Fresh bool `json:"fresh,omitempty"`
	// IsolationFrom is the connected repository whose default the isolation of the task is; empty if the request names one. The
	// daemon sets it.
	IsolationFrom string `json:"isolationFrom,omitempty"`
	// Workspace is the name or the ID of a workspace that the agent works in. It is kept
	// after the task. If there is none of that name, the task creates it; an existing one
	// must lie on what the task would create it over. Empty for a workspace of the task's
	// own.
	Workspace string `json:"workspace,omitempty"`
	// FilePolicy says which files are off limits to the sandboxes of the task, and which the
	// agent may not change. A stored task has the globs of the daemon in it, and a reply
	// keeps them.
	FilePolicy FilePolicy `json:"filePolicy,omitzero"`
	// Item makes the task a part of a plan. Plans set it; a request with it is refused.
	Item *ItemTask `json:"item,omitempty"`
	// Best requests several candidates, of which the best one is the result. Budget is for all of them together, each
	// has the same part; only the time is the same for all.
	Best *BestOf `json:"best,omitempty"`
}

// NoAgent reports whether no agent works for the task.
func (r RepoTask) NoAgent() bool { return r.PrepareOnly || r.GateOnly }

// ItemTask makes a task the work on an item of a plan, or the check of what the item changes in the plan. Such a task fetches
// nothing: its commits are in the daemon's copy of the repository.
type ItemTask struct {
	Plan PlanID `json:"plan"`
	Item string `json:"item"`
	// Branch is the branch of the repository that the plan began from; empty for a tag or a commit.
	Branch string `json:"branch,omitempty"`
	// Start is a commit. The workspace begins with what it changes against Ref.
	Start string `json:"start,omitempty"`
	// Check is a commit that is judged in the place of what an agent does. No agent works.
	Check string `json:"check,omitempty"`
	// Acceptance is a shell command that must pass on Check beside the gate; empty for none.
	Acceptance string `json:"acceptance,omitempty"`
	// Items are all items of the plan, if Check is its whole result: what reviewers are shown.
	Items []ItemEvidence `json:"items,omitempty"`
	// Stacked delivers a merge request for each completed item, each on that of the item before it.
	Stacked bool `json:"stacked,omitempty"`
	// Delivered and Stack are what the plan has delivered before, which the delivery of Check continues.
	Delivered *Delivery  `json:"delivered,omitempty"`
	Stack     []Delivery `json:"stack,omitempty"`
}

// ItemEvidence is what reviewers are shown of an item of a plan.
type ItemEvidence struct {
	ID    string   `json:"id"`
	Title string   `json:"title"`
	State string   `json:"state"`
	Needs []string `json:"needs,omitempty"`
	// Request is the beginning of its request, Acceptance its command, and Gate how that and the gate of the repository ended.
	Request    string `json:"request,omitempty"`
	Acceptance string `json:"acceptance,omitempty"`
	Gate       string `json:"gate,omitempty"`
	// Order is its place among the completed items, in the order in which they were merged.
	Order int `json:"order,omitempty"`
	// Commit is its commit, and Why the reason why there is none.
	Commit  string  `json:"commit,omitempty"`
	Why     string  `json:"why,omitempty"`
	MS      int64   `json:"ms,omitempty"`
	CostUSD float64 `json:"costUsd,omitempty"`
}

// TaskRepository is one of several repositories of a task.
type TaskRepository struct {
	// Name is its directory in the workspace, see ValidRepositoryName.
	Name string `json:"name"`
	// URL, Ref and Remote are as in RepoTask.
	URL    string `json:"url"`
	Ref    string `json:"ref,omitempty"`
	Remote string `json:"remote,omitempty"`
}

// MaxTaskRepositories is the number of repositories of a task.
const MaxTaskRepositories = 20

// All returns the repositories of the task, the first one first.
func (r RepoTask) All() []TaskRepository {
	return append([]TaskRepository{{Name: r.Name, URL: r.URL, Ref: r.Ref, Remote: r.Remote}}, r.Also...)
}

// Document is a text with a name.
type Document struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Version is that of a stored document when it was read; 0 for another text.
	Version int `json:"version,omitempty"`
}

// Identity is who a commit is by.
type Identity struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Budget bounds what an agent may use for one task, all rounds together. Zero
// means the default.
type Budget struct {
	// Steps are answers of the model.
	Steps int `json:"steps,omitempty"`
	// Tokens are input and output tokens together, cached ones included.
	Tokens int64 `json:"tokens,omitempty"`
	// CostUSD has no default bound. A model without a price cannot be bounded so.
	CostUSD float64 `json:"costUsd,omitempty"`
	// WallMS is the time of everything, the gate included, in milliseconds.
	WallMS int64 `json:"wallMs,omitempty"`
	// OutputBytes are what the tools' commands print, all together.
	OutputBytes int64 `json:"outputBytes,omitempty"`
}

// Defaults of a task on a repository.
const (
	DefaultSteps       = 100
	DefaultTokens      = 5_000_000
	DefaultWall        = 30 * time.Minute
	DefaultOutput      = 64 << 20
	DefaultRounds      = 2
	MaxRounds          = 10
	DefaultPasses      = 10
	MaxPasses          = 100
	DefaultGateTimeout = 10 * time.Minute
)

// StopReason is why an agent's work ended.
type StopReason string

const (
	// StopFinished: the agent called finish.
	StopFinished StopReason = "finished"
	// StopEnded: the model ended its turn without a call.
	StopEnded StopReason = "ended_turn"
	// The budgets.
	StopSteps  StopReason = "step_budget"
	StopTokens StopReason = "token_budget"
	StopCost   StopReason = "cost_budget"
	StopWall   StopReason = "wall_clock_budget"
	StopOutput StopReason = "output_budget"
	// StopMalformed: calls that could not be read, several in a row.
	StopMalformed StopReason = "malformed_calls"
	// StopLoop: the same call with the same answer, again and again.
	StopLoop StopReason = "repeated_calls"
	// StopDeclined: the model says that the request is beyond it.
	StopDeclined StopReason = "declined"
	// StopModel: the model's server failed.
	StopModel StopReason = "model_failed"
	// StopSandbox: the sandbox ended under the agent, by a limit or otherwise.
	StopSandbox StopReason = "sandbox_ended"
	// StopCanceled: a person stopped it.
	StopCanceled StopReason = "canceled"
)

// The other ends of the passes of a task with RepoTask.Until.
const (
	// StopPassed: the command passed, and the gate.
	StopPassed StopReason = "passed"
	// StopUnchanged: a pass changed no file that is part of the result.
	StopUnchanged StopReason = "no_change"
	// StopSameFailures: two passes, one after the other, left the same failures.
	StopSameFailures StopReason = "same_failures"
	// StopPasses: the maximum number of passes.
	StopPasses StopReason = "pass_budget"
)

// RepoResult is what a task on a repository came to. It grows while the task
// runs.
type RepoResult struct {
	// Commit is what the work started from, and Base the branch of the repository
	// that it was found by, empty for a tag or a commit. Branch is where the result
	// is.
	Commit string `json:"commit,omitempty"`
	Base   string `json:"base,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Head is the commit that was made; empty when nothing was changed.
	Head      string      `json:"head,omitempty"`
	Workspace WorkspaceID `json:"workspace,omitempty"`
	// Copies are its copies that sub-agents work in now.
	Copies CandidateCopies `json:"copies,omitempty"`
	// Verify is the gate's command, and VerifyFrom where it is from: "asked", or
	// in words where it was found and why it was chosen. If there is none, Verify is
	// empty, VerifyFrom says why, and nothing verifies the work.
	Verify     string `json:"verify,omitempty"`
	VerifyFrom string `json:"verifyFrom,omitempty"`
	// NotInstalled is what the setup of the repository left out, or could not install.
	NotInstalled []NotInstalled `json:"notInstalled,omitempty"`
	// Before is the gate on the commit that the work started from.
	Before *Gate   `json:"before,omitempty"`
	Rounds []Round `json:"rounds,omitempty"`
	// Stopped is why the passes of a task with Until ended: StopPassed, StopUnchanged, StopSameFailures, StopPasses, or the reason of
	// the last agent, such as StopSteps.
	Stopped StopReason `json:"stopped,omitempty"`
	// Files are the changes of Head against Commit.
	Files []FileChange `json:"files,omitempty"`
	// Cautions are lines and files of the change that a person should look at.
	Cautions []Caution `json:"cautions,omitempty"`
	// Refused are changes that were not taken, each with the reason.
	Refused []RefusedChange `json:"refused,omitempty"`
	// Wanted are files that the agent of an item of a plan requests, or has written, and may not change.
	Wanted []WantedFile `json:"wanted,omitempty"`
	// LeftOut are directories that package managers and build tools made, which are not part of the result.
	LeftOut []LeftOut `json:"leftOut,omitempty"`
	// OffLimits counts the files of Commit that are off limits.
	OffLimits int `json:"offLimits,omitempty"`
	// Ignored counts new files that the repository's own rules ignore.
	Ignored int `json:"ignored,omitempty"`
	// Title says in a line what was done: the first line of the commit's message. It is the agent's own word, or made from the change.
	Title string `json:"title,omitempty"`
	// Summary is the agent's own word.
	Summary string `json:"summary,omitempty"`
	// Todo is the agent's own list of its work, as it wrote it last.
	Todo     []TodoItem `json:"todo,omitempty"`
	Delivery *Delivery  `json:"delivery,omitempty"`
	// Stack are the deliveries of the items of a plan, in their order, if it was delivered so. Delivery is the last one then.
	Stack []Delivery `json:"stack,omitempty"`
	// Applied is true if a person took the result into a checkout.
	Applied bool `json:"applied,omitempty"`
	// Partial is true if the work was interrupted; what there was is kept.
	Partial bool `json:"partial,omitempty"`
	// Checkpoint is the copy of the workspace that a turn of a session left, and AgentSession what
	// its agent calls the conversation, if that is a program.
	Checkpoint   WorkspaceID `json:"checkpoint,omitempty"`
	AgentSession string      `json:"agentSession,omitempty"`
	// Repositories are the results of a task on several repositories, one for each. Then
	// Commit and Head have all of them, each in its directory, and exist in the daemon only;
	// Base and Delivery are empty.
	Repositories []RepositoryResult `json:"repositories,omitempty"`
	// Candidates are those of a task with Best. The rest of the result is that of the chosen one.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// NotInstalled is a part of a repository's setup without a result.
type NotInstalled struct {
	// Language is that of the packages; empty if it is not known.
	Language Language `json:"language,omitempty"`
	// Program is what the sandbox lacks to install them, such as pnpm; empty if there was another reason.
	Program string `json:"program,omitempty"`
	// Why is a sentence: what is not installed, and the reason.
	Why string `json:"why"`
	// Instead is a variable with which the tests find the packages of the repository itself nevertheless, such as PYTHONPATH=src; empty if
	// there is none.
	Instead string `json:"instead,omitempty"`
}

// RepositoryResult is what a task came to in one of its repositories. Its branch is that of the
// task.
type RepositoryResult struct {
	Name string `json:"name"`
	// Commit is what the work started from, Base the branch that it was found by.
	Commit string `json:"commit,omitempty"`
	Base   string `json:"base,omitempty"`
	// Head is the commit that was made; empty if nothing was changed here.
	Head string `json:"head,omitempty"`
	// Verify is its own test command; empty if it has none.
	Verify   string    `json:"verify,omitempty"`
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Of returns the part of a result that is of one of several repositories, with paths relative to
// it. ok is false for an unknown name.
func (r RepoResult) Of(name string) (part RepoResult, ok bool) {
	for _, m := range r.Repositories {
		if m.Name != name {
			continue
		}
		part = r
		part.Repositories = nil
		part.Commit, part.Base, part.Head, part.Delivery = m.Commit, m.Base, m.Head, m.Delivery
		if m.Verify != "" {
			part.Verify = m.Verify
		}
		part.Files, part.Cautions, part.Refused, part.LeftOut = nil, nil, nil, nil
		in := name + "/"
		for _, f := range r.Files {
			if path, mine := strings.CutPrefix(f.Path, in); mine {
				f.Path, f.OldPath = path, strings.TrimPrefix(f.OldPath, in)
				part.Files = append(part.Files, f)
			}
		}
		for _, c := range r.Cautions {
			if path, mine := strings.CutPrefix(c.Path, in); mine {
				c.Path = path
				part.Cautions = append(part.Cautions, c)
			}
		}
		for _, c := range r.Refused {
			if path, mine := strings.CutPrefix(c.Path, in); mine {
				c.Path = path
				part.Refused = append(part.Refused, c)
			}
		}
		for _, l := range r.LeftOut {
			if path, mine := strings.CutPrefix(l.Path, in); mine {
				l.Path = path
				part.LeftOut = append(part.LeftOut, l)
			}
		}
		return part, true
	}
	return part, false
}

// Round is one pass of the agent, and the gates on what it left.
type Round struct {
	N     int        `json:"n"` // from 1
	Stop  StopReason `json:"stop"`
	Why   string     `json:"why,omitempty"`
	Steps int        `json:"steps"`
	// Model is the name of the model that gave the last answer of the round.
	Model string `json:"model,omitempty"`
	// Agent names the program that worked, with its version; empty for Hortus's own agent.
	Agent string `json:"agent,omitempty"`
	// Head is the commit of this round's result; empty when nothing was changed.
	Head string `json:"head,omitempty"`
	Gate *Gate  `json:"gate,omitempty"`
	// Original is the gate with every test file as it was, where the agent
	// changed some.
	Original *Gate `json:"original,omitempty"`
	// Mutant is the gate on a broken repository: it must fail.
	Mutant *Gate `json:"mutant,omitempty"`
	// Without is the gate with the changed tests alone, where it passed before the work:
	// it fails if those tests test the change. It decides nothing.
	Without *Gate `json:"without,omitempty"`
	// Disguised is the gate with another directory, date, environment and names of test files, so that a program sees
	// less of being tested. It must pass too. It is nil if it proves nothing, because the commit before the work depends on these.
	Disguised *Gate `json:"disguised,omitempty"`
	// Acceptance is the run of the acceptance command of an item of a plan, or of a task's command Until that is not the gate. It must pass
	// too.
	Acceptance *Gate `json:"acceptance,omitempty"`
	// NoDisguise is true if each such run proved nothing.
	NoDisguise bool  `json:"noDisguise,omitempty"`
	MS         int64 `json:"ms"`
}

// Gate is one run of the command that decides.
type Gate struct {
	Command string `json:"command"`
	// Passed is true if the command ended with 0 by itself, and that nothing in the
	// report of its tests speaks against it. It is also true if nothing failed but tests of Tests.Unstable,
	// or if Tests.OldOnly is true and these failures did not decide.
	Passed bool `json:"passed"`
	Exit   Exit `json:"exit"`
	// Tests is what the runner of the tests reported; nil when the command gives no
	// report that is known, so that its exit code alone decides.
	Tests *TestReport `json:"tests,omitempty"`
	// Output is its beginning and its end; OutputBytes is all of it.
	Output      string    `json:"output,omitempty"`
	OutputBytes int64     `json:"outputBytes,omitempty"`
	MS          int64     `json:"ms"`
	Sandbox     SandboxID `json:"sandbox,omitempty"`
	Isolation   string    `json:"isolation,omitempty"`
	// Reused is set if the gate did not run for this task: it is what the gate before the work of another task came to, on the same
	// commit in the same circumstances.
	Reused *ReusedGate `json:"reused,omitempty"`
}

// ReusedGate says where a gate ran that a later task did not run again.
type ReusedGate struct {
	Task   TaskID    `json:"task"`
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
}

// TestReport is what ran a gate's tests, and what it said of them, as the host read it.
type TestReport struct {
	// Runner ran the tests, such as "unittest" or "go test".
	Runner  string `json:"runner"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed,omitempty"`
	Skipped int    `json:"skipped,omitempty"`
	// FailedTests names the first MaxNamedTests that failed.
	FailedTests []string `json:"failedTests,omitempty"`
	// Before is how many tests passed or failed before the work. MissingCount of them
	// did not pass now; Missing names the first MaxNamedTests.
	Before       int      `json:"before,omitempty"`
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missingCount,omitempty"`
	// Regressions counts those of them that passed before the work.
	Regressions int `json:"regressions,omitempty"`
	// Old names the first MaxNamedTests of OldCount tests that failed before the work and fail now. OldOnly is true if
	// nothing else failed. Fixed counts the tests that failed before and pass now, New what fails now and did not before.
	Old      []string `json:"old,omitempty"`
	OldCount int      `json:"oldCount,omitempty"`
	OldOnly  bool     `json:"oldOnly,omitempty"`
	Fixed    int      `json:"fixed,omitempty"`
	New      int      `json:"new,omitempty"`
	// Unstable are the first MaxNamedTests tests that failed and then passed in most of their runs. They count as passed.
	Unstable []UnstableTest `json:"unstable,omitempty"`
	// Why is the reason for which the gate did not pass although its exit code is 0.
	Why string `json:"why,omitempty"`
}

// UnstableTest is a test that failed, was run again alone, and passed in most of its runs.
type UnstableTest struct {
	Name   string `json:"name"`
	Passed int    `json:"passed"` // of Runs
	Runs   int    `json:"runs"`
	// Before is true if it was unstable before the work too.
	Before bool `json:"before,omitempty"`
}

// MaxNamedTests is how many tests a TestReport names in each list.
const MaxNamedTests = 20

// Caution is a line that a change adds outside of its tests, or a changed file, that could make a gate
// say what it should not. It decides nothing: a person should look at it.
type Caution struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1; 0 for a file, or for a directory
	Uses string `json:"uses"`
}

// The gates of a round, by the names under which their whole output is read.
// GateBefore is that of the task, before the first round.
const (
	GateBefore    = "before"
	GateResult    = "gate"
	GateOriginal  = "original"
	GateMutant    = "mutant"
	GateWithout   = "without"
	GateDisguised = "disguised"
	// GateAcceptance is the acceptance command of an item of a plan, or the command Until of a task.
	GateAcceptance = "acceptance"
)

// IsSetupOutput reports whether a name is that of the output of a step of the setup: "setup-01",
// "setup-02" and so on. It is read like that of a gate of round 0.
func IsSetupOutput(which string) bool {
	n, ok := strings.CutPrefix(which, "setup-")
	return ok && len(n) == 2 && n != "00" && strings.Trim(n, "0123456789") == ""
}

// FileChange is one changed file.
type FileChange struct {
	Path    string `json:"path"`
	OldPath string `json:"oldPath,omitempty"`
	// Status is "added", "modified", "deleted", "renamed" or "type changed".
	Status  string `json:"status"`
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary,omitempty"`
	// Size is that of an added file, in bytes.
	Size int64 `json:"size,omitempty"`
	// Test is true if it looks like a test or what tests are run with.
	Test bool `json:"test,omitempty"`
}

// RefusedChange is a change that does not leave the workspace.
type RefusedChange struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// WantedFile is a file that an item of a plan may not change and needs.
type WantedFile struct {
	Path string `json:"path"`
	Why  string `json:"why,omitempty"`
}

// LeftOut is a directory, or a file, that a package manager or a build tool made by itself.
type LeftOut struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
}

// Delivery is what was done with the result.
type Delivery struct {
	// Item is the item of a plan that it is of, in a stack.
	Item string `json:"item,omitempty"`
	// Pushed names the remote, without credentials.
	Pushed string `json:"pushed,omitempty"`
	Branch string `json:"branch,omitempty"`
	Target string `json:"target,omitempty"`
	// Commit is what was pushed.
	Commit string `json:"commit,omitempty"`
	// Forge is "github", "gitlab" or "gitea"; URL and Number name the request.
	Forge  string `json:"forge,omitempty"`
	URL    string `json:"url,omitempty"`
	Number int    `json:"number,omitempty"`
	// Created is false where the request was there already.
	Created bool `json:"created,omitempty"`
	// Draft is true if the request was to be opened as a draft. Policy are the values of the branch policy that were used.
	Draft  bool          `json:"draft,omitempty"`
	Policy []PolicyField `json:"policy,omitempty"`
	// Refused is what the branch policy had against it.
	Refused []PolicyRefusal `json:"refused,omitempty"`
	// Error is what kept the delivery from happening.
	Error *Error `json:"error,omitempty"`
}

// DeliverTask requests the delivery of a task's verified result, again or for the
// first time. With neither Push nor MergeRequest it is what the task was requested;
// an empty Remote or Target is the task's as well.
type DeliverTask struct {
	Push         bool   `json:"push,omitempty"`
	MergeRequest bool   `json:"mergeRequest,omitempty"` // pushes too
	Remote       string `json:"remote,omitempty"`
	// Remotes are the remotes of several repositories, by their names.
	Remotes map[string]string `json:"remotes,omitempty"`
	Target  string            `json:"target,omitempty"`
	Draft   bool              `json:"draft,omitempty"`
	// Stacked opens a merge request for each completed item of a plan, each on that of the item before it.
	Stacked bool `json:"stacked,omitempty"`
}

// PolicyRefusal is one rule of the branch policy that a delivery breaks.
type PolicyRefusal struct {
	Rule string `json:"rule"`
	Path string `json:"path,omitempty"`
	Why  string `json:"why"`
}

// RepoStepEvent reports that a step of the work begins or ended: "fetch",
// "checkout", "sandbox", "agent", "collect", "gate command", "gate", "original tests",
// "tests alone", "disguise", "mutant",
// "issue", "policy", "push", "merge request". MS is set at its end.
type RepoStepEvent struct {
	Step string `json:"step"`
	// Repository is the name of one of several repositories.
	Repository string `json:"repository,omitempty"`
	Round      int    `json:"round,omitempty"`
	Detail     string `json:"detail,omitempty"`
	Done       bool   `json:"done,omitempty"`
	MS         int64  `json:"ms,omitempty"`
	Error      string `json:"error,omitempty"`
	Gate       *Gate  `json:"gate,omitempty"`
	// Line is the last line that a gate has printed so far, now and then while it runs.
	Line string `json:"line,omitempty"`
	// Candidate is the number of the candidate, from 1, if the task has several, here and in other events.
	Candidate int `json:"candidate,omitempty"`
}

// ToolEvent reports that the agent used a tool. Input and Output are short forms for
// people; the whole is in the transcript.
type ToolEvent struct {
	// Agent is set for a sub-agent, which counts rounds and steps of its own: "research 1".
	Agent  string `json:"agent,omitempty"`
	Round  int    `json:"round"`
	Step   int    `json:"step"`
	Tool   string `json:"tool"`
	Input  string `json:"input,omitempty"`
	Output string `json:"output,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	MS     int64  `json:"ms"`

	Candidate int `json:"candidate,omitempty"`
}

// TodoItem is a part of an agent's work. State is "pending", "active" or "done".
type TodoItem struct {
	Text  string `json:"text"`
	State string `json:"state"`
}

// TodoEvent reports that the agent wrote its list of work: all of it.
type TodoEvent struct {
	Round int        `json:"round"`
	Step  int        `json:"step"`
	Items []TodoItem `json:"items"`

	Candidate int `json:"candidate,omitempty"`
}

// SayEvent is what the agent said beside its calls.
type SayEvent struct {
	Agent string `json:"agent,omitempty"` // as in ToolEvent
	Round int    `json:"round"`
	Step  int    `json:"step"`
	Text  string `json:"text"`
	// Cut is true if the text ends where the work was stopped.
	Cut       bool `json:"cut,omitempty"`
	Candidate int  `json:"candidate,omitempty"`
}

// CompactEvent reports that the history was shortened.
type CompactEvent struct {
	Agent        string `json:"agent,omitempty"` // as in ToolEvent
	Step         int    `json:"step"`
	TokensBefore int64  `json:"tokensBefore"`
	TokensAfter  int64  `json:"tokensAfter"`
	Candidate    int    `json:"candidate,omitempty"`
}
