package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/journal"
)

// project is what a task works on: its repositories at their commits, and what is prepared for all who work on them.
// It does not change after its preparation.
type project struct {
	cfg          Config
	checkouts    *flight.Group[struct{}]
	steps        *steps
	journal      *journal.Run
	task         api.Task
	req          api.RepoTask
	earlier      []EarlierTask
	conversation *conversation // nil if the task is no turn of a session
	dir          string
	known        func(ctx context.Context, round int, output string) []api.KnownFix // nil for none
	leaves       func(ctx context.Context) bool                                     // nil for never
	// members are the repositories. repo and base are the only one and its commit, or all of
	// them combined.
	members repositories
	repo    *cache.Repo
	base    cache.Commit
	// beside has commits of another node; empty for what is beside the workspace.
	beside string
	// issue is the issue that the request is about; without a name if there is none.
	issue api.Document
	// documents are the files of the commit that the request names.
	documents []api.Document
	// files says which files are off limits and which the agent may not change.
	files *filerule.Policy
	// prepared is the result of the setups.
	prepared SetupResult
	// logs names the outputs of setups.
	logs logs
	// release releases the layers.
	release []func()
}

// newProject begins the project of a job.
func (r *Runner) newProject(job Job) *project {
	return &project{
		cfg: r.cfg, checkouts: &r.checkouts, steps: newSteps(job.Emit, r.cfg.Now), journal: cmp.Or(job.Run, journal.None(r.cfg.Now)),
		task: job.Task, req: *job.Task.Create.Repo, earlier: job.Earlier, conversation: r.conversation(job), dir: job.Dir, known: job.Known, leaves: job.Leaves,
	}
}

// attempt begins an attempt with the result that a task has so far.
func (p *project) attempt(res api.RepoResult, store func(context.Context, api.RepoResult) error) *attempt {
	a := &attempt{project: p, steps: p.steps, journal: p.journal, dir: p.dir, store: store, res: res, slot: newSandboxSlot(p.files)}
	a.gates, a.copies = &gates{attempt: a}, a.newCopies(p.copied(0))
	return a
}

// offLimits counts the files of the bases that are off limits.
func (p *project) offLimits() (n int) {
	for _, m := range p.members {
		n += m.offLimits
	}
	return n
}

// results are the parts of a result, one for each of several repositories; nil for one.
func (p *project) results() (out []api.RepositoryResult) {
	if !p.members.several() {
		return nil
	}
	for _, m := range p.members {
		out = append(out, api.RepositoryResult{Name: m.Name, Commit: m.base.Hash, Base: m.base.Branch})
	}
	return out
}

// leftOut is what tells checkouts of a commit apart that leave out other files.
func (m *repository) leftOut() string {
	if !m.files.Hides() {
		return ""
	}
	globs, err := json.Marshal(m.policy.OffLimits)
	if err != nil {
		panic(err) // it is a list of strings
	}
	return " without " + string(globs)
}

// visible lists the files of the base that are not off limits, and counts those that are.
func (w *project) visible(ctx context.Context) ([]cache.Entry, int, error) {
	return visible(ctx, w.repo, w.base, w.files)
}

func visible(ctx context.Context, r *cache.Repo, base cache.Commit, policy *filerule.Policy) (files []cache.Entry, offLimits int, err error) {
	all, err := r.Files(ctx, base.Hash)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range all {
		if policy.OffLimits(f.Path) == "" {
			files = append(files, f)
		}
	}
	return files, len(all) - len(files), nil
}

// readDocuments reads the files of the commit that the request names as documents.
func (w *project) readDocuments(ctx context.Context) error {
	for _, name := range w.req.Documents {
		if w.files.OffLimits(name) != "" {
			return api.Errorf(api.KindDenied, "document %s is off limits to the task", name).WithHint("omit it, or change the rules for files: docs/files.md")
		}
		text, err := w.repo.ReadFile(ctx, w.base.Hash, name, api.MaxDocument)
		if err != nil {
			return api.AsError(err).WithHint("a document of a task is a committed file; list them: hortus document ls --repo REPOSITORY")
		}
		w.documents = append(w.documents, api.Document{Name: name, Text: string(text)})
	}
	return nil
}

// access lists what the sandbox of the agent has read-only. A link is not in it, because it cannot
// be mounted; its change is refused.
func (w *project) access(ctx context.Context) ([]filerule.Access, error) {
	rules := w.files
	if w.item() != nil {
		// A mount cannot let an item add files to a directory and keep it from others. What it may not change is not taken.
		p := w.req.FilePolicy
		p.Writable = nil
		var err error
		if rules, err = filerule.Compile(p); err != nil {
			return nil, err
		}
	}
	if !rules.Restricts() {
		return nil, nil
	}
	files, _, err := w.visible(ctx)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range files {
		if f.Mode == cache.Regular || f.Mode == cache.Executable {
			paths = append(paths, f.Path)
		}
	}
	return rules.Access(paths)
}

// taken returns the changes of a workspace that the file policy allows, and the others with the
// reason. This holds whatever the sandbox did to its mounts.
func (w *project) taken(changes []cache.Change) (ok []cache.Change, refused []api.RefusedChange) {
	for _, c := range changes {
		if why := w.files.Refuse(c.Path); why != "" {
			refused = append(refused, api.RefusedChange{Path: strings.ToValidUTF8(c.Path, "?"), Why: why})
			continue
		}
		ok = append(ok, c)
	}
	return ok, refused
}

// maxRules bounds the text about the file policy in a request to a model, in bytes.
const maxRules = 4 << 10

// rules says to the agent what it cannot read or change, and what of the repository is not there. It is empty if nothing of that is in the
// repository.
func (w *project) rules() string {
	p := w.req.FilePolicy
	var lines []string
	if w.members.several() {
		lines = append(lines, "The workspace has several repositories, each in its directory: "+strings.Join(w.members.dirs(), ", ")+". Change files only in these directories. The gate command runs in /workspace.")
	}
	say := func(what string, globs []string) {
		lines = append(lines, what+": "+git.Sanitize(strings.Join(globs, " "), maxRules))
	}
	if w.offLimits() > 0 {
		say("Files that are off limits, missing in the workspace and its history, and kept as they are", p.OffLimits)
	}
	if len(p.ReadOnly) > 0 {
		say("Files that you can read but not change", p.ReadOnly)
	}
	if len(p.Writable) > 0 {
		say("The only files that you can change", p.Writable)
	}
	if w.item() != nil {
		lines = append(lines, "Your work is one item of a plan; others work on the rest at the same time. If it needs a change of another file, "+
			"write a line with the path and the reason to "+RequestFile+", finish, and say so: you will be asked to continue if you get it.")
	}
	var subs []string
	pointers := 0
	for _, m := range w.members {
		for _, sub := range m.outside.Submodules {
			subs = append(subs, m.at(sub.Path))
		}
		pointers += m.outside.Pointers
	}
	if len(subs) > 0 {
		say("Submodules, whose directories are empty here, and stay as they are", subs[:min(len(subs), 20)])
	}
	if pointers > 0 {
		lines = append(lines, fmt.Sprintf("%d files are Git LFS pointers: their contents are not here, and git lfs cannot fetch them", pointers))
	}
	return strings.Join(lines, "\n")
}

// inRepository returns a path of the sandbox relative to the repository, "" if it is not in it.
func inRepository(p string) string {
	rel, ok := strings.CutPrefix(path.Clean(p), Workspace+"/")
	if !ok {
		return ""
	}
	return rel
}
