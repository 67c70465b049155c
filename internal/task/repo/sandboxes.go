package repo

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Workspace is where a sandbox of a repository has its files.
const Workspace = "/workspace"

// Agents has the programs of agents, and their home directories. A setup of a repository puts nothing there.
const Agents = Workspace + "/.git/hortus/agents"

// Layer names an immutable file tree.
type Layer string

// Sandboxes makes the sandboxes of tasks, and keeps their files.
type Sandboxes interface {
	// Layer returns the tree of that key, which build writes below dir where it is
	// not there yet. It stays until release is called.
	Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (l Layer, release func(), err error)
	// Over makes a layer of changes above base, which stays until release is called.
	// It is used with base below it.
	Over(ctx context.Context, base []Layer, changes []cache.Change) (l Layer, release func(), err error)
	// Workspace makes durable files above layers, the lowest first.
	Workspace(ctx context.Context, task api.TaskID, layers ...Layer) (api.WorkspaceID, error)
	// Fork makes a copy of durable files that nobody has, for a task. What was written in both stays shared.
	Fork(ctx context.Context, task api.TaskID, from api.WorkspaceID) (api.WorkspaceID, error)
	// Attach makes a task the owner of a workspace that a person named, which lies on
	// layers and which nobody uses; if there is none of that name, it makes it.
	// KindConflict names what does not fit.
	Attach(ctx context.Context, task api.TaskID, nameOrID string, layers ...Layer) (api.WorkspaceID, error)
	// Adopt makes a task the owner of a workspace of another one, whose it must be;
	// KindNotFound if it was removed, KindConflict if it has another owner.
	Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error
	// Discard removes a workspace, if it is there.
	Discard(ctx context.Context, id api.WorkspaceID) error
	// Changes reads what was written in a workspace, while nobody has it. dirs have the
	// repositories, if there are several. The second result is what cannot be taken, with
	// the reasons.
	Changes(ctx context.Context, id api.WorkspaceID, dirs ...string) ([]cache.Change, []api.RefusedChange, func(), error)
	// Open starts a sandbox over a workspace, in which not everything can be changed.
	Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (Sandbox, error)
	// Clean starts a sandbox over layers, the lowest first, whose changes are lost
	// with it. It runs what was written in the workspace of, if that is not empty, and may do no
	// more than the sandboxes over it.
	Clean(ctx context.Context, req api.CreateSandbox, of api.WorkspaceID, layers ...Layer) (Sandbox, error)
}

// Sandbox is a sandbox. When a Run's context ends, all of it is killed.
type Sandbox interface {
	AgentSandbox
	Info() api.Sandbox
	// Close kills everything in it and frees it. It is idempotent.
	Close(ctx context.Context) (api.Proof, error)
}

// Deliverer brings a branch to the people who review it.
type Deliverer interface {
	// Terms returns what the branch policies choose for a delivery that leaves it open.
	Terms(ctx context.Context, d Proposal) (Terms, error)
	// Check is asked before anything is pushed. It says what the branch policy has
	// against a delivery, and what a merge request will aim at. For one it asks the
	// forge, and changes nothing there; an error means that it could not tell.
	Check(ctx context.Context, d Proposal) (Verdict, error)
	// Open opens the merge request of a branch that was pushed, or finds the one
	// that is open already. Beside an error it gives the one that exists all the
	// same.
	Open(ctx context.Context, d Proposal) (api.Delivery, error)
	// Source is where the branch is pushed to, with what opens it.
	Source(ctx context.Context, remote string) (git.Source, error)
	// Issue reads an issue by the address of its page.
	Issue(ctx context.Context, address string) (forge.Issue, error)
}

// Proposal is a branch with its evidence.
type Proposal struct {
	Task   api.Task
	Remote string
	// Source is the address that the work started from. The policy of the repository is that of Remote, or else that of Source.
	Source string
	Branch string
	// Target is empty for the forge's default branch.
	Target string
	// MergeRequest is true if more is wanted than a branch.
	MergeRequest, Draft bool
	Files               []policy.File
	// Requests are the messages of a session so far, the oldest first; nil for a task, which has one.
	Requests []string
	// Earlier is what the turns before have delivered there, which this one continues; nil for nothing.
	Earlier *api.Delivery
	// Part is set for the merge request of an item of a plan, in a stack.
	Part *StackPart
}

// StackPart is the place of a merge request in a stack.
type StackPart struct {
	Item api.ItemEvidence
	// N is its place from 1, of Of.
	N, Of int
	// Before is the merge request that it lies on; nil for the first.
	Before *api.Delivery
}

// Terms are the choices of the branch policies.
type Terms struct {
	// Prefix begins the name of the branch.
	Prefix string
	// Target is the branch that a merge request aims at; empty for the branch that the work started from.
	Target string
	Draft  bool
	// Rename has another name be used if the branch exists at another commit.
	Rename bool
	// From says where each of them comes from, by the name of the field.
	From map[string]string
}

// Existing is what happens if the branch exists, as in api.RepositoryPolicy.
func (t Terms) Existing() string {
	if t.Rename {
		return api.BranchRenamed
	}
	return api.BranchFails
}

// Verdict is what a [Deliverer] says before a push.
type Verdict struct {
	// Target is what a merge request will aim at.
	Target  string
	Refused []api.PolicyRefusal
	// Merged is true if the merge request of a part of a stack was merged: nothing is left to deliver.
	Merged bool
}

// Emitter takes the facts of a task as they happen, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}

// Copier is a [Sandboxes] that can copy a sandbox that is in use.
type Copier interface {
	// Copy makes another sandbox with the files of one instant of a sandbox of a task, which continues. p is what that one
	// was opened with: Sandbox, Access and Services; Layers and Of are not used. The copy has a workspace of its own, Info().Workspace, which
	// belongs to the task until Discard, after Close. What one of the two writes is not seen in the other.
	//
	// Where memory can be forked the programs that run continue in the copy too, and Info().Parent names the sandbox. Otherwise Parent is
	// empty, the sandbox is paused while its files are copied, and the services are started in the copy. In both cases
	// they are ready: the copy is a [ServiceSandbox]. Copies of one sandbox are made one after the other.
	//
	// After an error nothing is left of the copy, unless the error says so. Errors: KindUnsupported where neither can be
	// done; KindExhausted if too much was written to copy it; KindConflict if the sandbox is paused; KindUnavailable if it has ended.
	Copy(ctx context.Context, task api.TaskID, of Sandbox, p Preparation) (Sandbox, error)
}

// Preparation is what several sandboxes of a task begin with.
type Preparation struct {
	Sandbox  api.CreateSandbox
	Layers   []Layer
	Access   []filerule.Access
	Services []Service
	// Of is how many sandboxes there are at most; 0 if that is not known.
	Of int
}

// Preparer is a [Sandboxes] that can start services once for several sandboxes, by a fork of one in which they run.
type Preparer interface {
	// Prepare says what sandboxes of a task begin with. Until end is called, Workspace over these layers may return a
	// workspace for which there is such a sandbox already: the first Open of it with the same request returns it, as a [ServiceSandbox].
	// Where that cannot be, both do what they do otherwise. Nothing is started before the first of these calls.
	// end ends what was started and not opened, and returns how many processes may be left.
	Prepare(task api.TaskID, p Preparation) (end func(context.Context) (left int))
}

// ServiceSandbox is a [Sandbox] in which the services run already. They were ready when it was made.
type ServiceSandbox interface {
	Sandbox
	// Serves is for the type only.
	Serves()
}

// prepareServices calls Prepare of a [Preparer], if there are services. leave, which may be called in any case, also after the end of its
// context, ends it and tells closed how many processes may be left.
func prepareServices(c Sandboxes, task api.TaskID, p Preparation, closed func(left int)) (leave func(context.Context)) {
	of, ok := c.(Preparer)
	if !ok || len(p.Services) == 0 {
		return func(context.Context) {}
	}
	end := of.Prepare(task, p)
	return func(ctx context.Context) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		closed(end(late))
	}
}

// Ready waits until services that were started can be used.
func Ready(ctx context.Context, sandbox Sandbox, services []Service) error {
	for _, s := range services {
		if err := awaitReady(ctx, sandbox, s); err != nil {
			return err
		}
	}
	return nil
}

// Sessions keeps what outlives the turns of sessions: workspaces with their copies, and sandboxes.
type Sessions interface {
	// Workspace makes the durable files of a session above layers.
	Workspace(ctx context.Context, id api.SessionID, layers ...Layer) (api.WorkspaceID, error)
	// Copy copies a workspace as it is at one instant. Nobody has it but the sandbox, which is stopped meanwhile; nil for none.
	Copy(ctx context.Context, id api.SessionID, ws api.WorkspaceID, c Sandbox) (api.WorkspaceID, error)
	// Discard removes a copy that is not needed.
	Discard(ctx context.Context, ws api.WorkspaceID)
	// Take returns the sandbox that stayed after the last turn, running, and how it was found; nil if there is none. It may
	// live so long.
	Take(ctx context.Context, id api.SessionID, live time.Duration) (c Sandbox, how string)
	// Keep takes the sandbox of a turn that has ended. It reports whether it did.
	Keep(ctx context.Context, id api.SessionID, c Sandbox) bool
	// Restored learns how a turn got its sandbox.
	Restored(ctx context.Context, id api.SessionID, e session.RestoredEvent)
}

// Turn makes a task a turn of a session.
type Turn struct {
	Session api.SessionID `json:"session"`
	N       int           `json:"n"`
	// Transcripts are the files of the turns before, the oldest first.
	Transcripts []string `json:"transcripts,omitempty"`
	// Workspace is what the turn works in, Commit and Base what it lies on; all are empty for the first turn, which makes it.
	Workspace api.WorkspaceID `json:"workspace,omitempty"`
	Commit    string          `json:"commit,omitempty"`
	Base      string          `json:"base,omitempty"`
	// Checkpoint is the copy of the workspace after the turn before; empty if it has none.
	Checkpoint api.WorkspaceID `json:"checkpoint,omitempty"`
	// Head is the commit of the workspace before the turn; empty if nothing was changed.
	Head string `json:"head,omitempty"`
	// AgentSession is what the agent called the conversation, if it is a program.
	AgentSession string `json:"agentSession,omitempty"`
	// Requests are the messages of the conversation, with that of the turn. Delivered is where the turns before have delivered; nil
	// for nowhere.
	Requests  []string      `json:"requests,omitempty"`
	Delivered *api.Delivery `json:"delivered,omitempty"`
	// Stays is true if the sandbox may stay after the turn.
	Stays bool `json:"stays,omitempty"`
}

// Before is the result of the turn before, as far as a turn continues it; nil for the first one.
func (t *Turn) Before() *api.RepoResult {
	if t == nil || t.Workspace == "" {
		return nil
	}
	return &api.RepoResult{Workspace: t.Workspace, Commit: t.Commit, Base: t.Base}
}
