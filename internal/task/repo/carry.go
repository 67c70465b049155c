package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// Archive has the files of workspaces for the other nodes of a fleet. The files that are beside those of a workspace are not seen in sandboxes.
type Archive interface {
	// Seal stores the files that a workspace has now in the background, as those of the work of a task before a step of its journal. others are
	// workspaces with the same files. beside puts further files into a directory.
	Seal(ctx context.Context, id api.WorkspaceID, others []api.WorkspaceID, task api.TaskID, step string, beside func(dir string) error) error
	// Stored waits until what Seal was given for a workspace is stored, or the archive fails. Has does, and reports whether those of the work of
	// a task before a step are.
	Stored(ctx context.Context, id api.WorkspaceID)
	Has(ctx context.Context, id api.WorkspaceID, task api.TaskID, step string) bool
	// Beside returns the directory with what was beside a workspace that came from another node; empty if there is none.
	Beside(id api.WorkspaceID) string
	// FetchBeside fetches what is stored beside a workspace into a directory, which remove removes. KindNotFound if nothing is stored and the workspace is this node's.
	FetchBeside(ctx context.Context, id api.WorkspaceID) (dir string, remove func() error, err error)
}

// Names of what is stored beside a workspace.
const (
	commitsName = "commits.json"
	// maxTranscripts is how many transcripts of a session are stored.
	maxTranscripts = 50
)

// carriedCommits are commits that only the cache of this host has.
type carriedCommits struct {
	// Repository is the name of one of several; empty for the only one, or all of them combined.
	Repository string `json:"repository,omitempty"`
	Branch     string `json:"branch"`
	// Head is the commit of the branch; empty if there is none. Base is what it lies on.
	Head string `json:"head,omitempty"`
	Base string `json:"base"`
	// Rounds are the commits of the rounds so far.
	Rounds []string `json:"rounds,omitempty"`
	// Pack is the file with the objects.
	Pack string `json:"pack"`
}

// roundStep is the step with which the agent's part of a round begins.
func roundStep(n int) string { return fmt.Sprint("round ", n) }

// FirstStep is the first step that changes the files of a workspace.
const FirstStep = "round 1"

// seal stores what is in the workspace before a round, for other nodes. Without it the work continues all the same.
func (w *attempt) seal(ctx context.Context, round int) {
	if w.project.cfg.Archive == nil || w.candidate > 0 || !w.journal.Records() {
		return
	}
	id, others := w.res.Workspace, []api.WorkspaceID(nil)
	if w.project.conversation != nil { // its workspace may be in use
		id, others = w.res.Checkpoint, []api.WorkspaceID{w.res.Workspace}
	}
	err := w.project.cfg.Archive.Seal(ctx, id, others, w.project.task.ID, roundStep(round), func(dir string) error { return w.putBeside(ctx, dir) })
	if err != nil && ctx.Err() == nil {
		w.project.cfg.Logger.Warn("the files of a task are not stored for other nodes", "task", w.project.task.ID, "workspace", id, "err", err)
	}
}

// leave ends the work here before the gate of a round, if another node is to continue it from the files that seal stored. The agent's sandbox has ended.
func (w *attempt) leave(ctx context.Context, round int) error {
	p := w.project
	if p.leaves == nil || p.cfg.Archive == nil || w.candidate > 0 || w.spec.external() || !p.leaves(ctx) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storedTime)
	defer cancel()
	if !p.cfg.Archive.Has(ctx, w.res.Workspace, p.task.ID, roundStep(round)) {
		return nil
	}
	return w.journal.Leave()
}

// putBeside puts into a directory what another node needs beside the workspace: commits, and what was said in a session.
func (w *attempt) putBeside(ctx context.Context, dir string) error {
	var all []carriedCommits
	put := func(name string, r *cache.Repo, head, base string, rounds ...string) error {
		c := carriedCommits{Repository: name, Branch: w.res.Branch, Head: head, Base: base, Rounds: rounds, Pack: fmt.Sprintf("commits-%d.pack", len(all))}
		f, err := os.Create(filepath.Join(dir, c.Pack))
		if err != nil {
			return err
		}
		any, err := r.Pack(ctx, f, c.commits()...)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if !any {
			return os.Remove(f.Name())
		}
		all = append(all, c)
		return nil
	}
	p := w.project
	head, rounds := w.res.Head, []string(nil)
	for _, r := range w.res.Rounds {
		if r.Head != "" {
			rounds = append(rounds, r.Head)
		}
	}
	if p.conversation != nil {
		head = cmp.Or(head, p.conversation.turn.Head)
	}
	err := put("", p.repo, head, p.base.Hash, rounds...)
	for i, m := range p.members {
		if p.members.several() && err == nil {
			err = put(m.Name, m.repo, w.res.Repositories[i].Head, m.base.Hash)
		}
	}
	if err != nil {
		return err
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, commitsName), b, 0o600)
	}
	if talk := p.conversation; talk != nil && err == nil {
		past := talk.turn.Transcripts
		for _, name := range past[max(0, len(past)-maxTranscripts):] {
			err = errors.Join(err, addFile(talk.transcript(name), filepath.Join(dir, filepath.Base(name))))
		}
		err = errors.Join(err, addFile(TranscriptPath(w.dir), filepath.Join(dir, fmt.Sprintf("%d.jsonl", talk.turn.N))))
	}
	return err
}

// addFile copies a file, if it is there.
func addFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// takeCommits adds to a repository the commits that came with the workspace from another node: of a member, or of all combined ("").
func (w *project) takeCommits(ctx context.Context, name string, r *cache.Repo) error {
	dir := w.beside
	if w.cfg.Archive != nil {
		for _, res := range []*api.RepoResult{w.task.Repo, w.last()} {
			if res != nil && res.Workspace != "" && dir == "" {
				dir = w.cfg.Archive.Beside(res.Workspace)
			}
		}
	}
	if dir == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, commitsName))
	var all []carriedCommits
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	for _, c := range all {
		if err == nil && c.Repository == name {
			err = c.into(ctx, r, dir)
		}
	}
	if err != nil {
		return api.Errorf(api.KindOf(err), "the commits of another node: %w", err)
	}
	return nil
}

// commits are all of them.
func (c carriedCommits) commits() []string {
	all := append([]string{c.Base}, c.Rounds...)
	if c.Head != "" {
		all = append(all, c.Head)
	}
	return all
}

// into adds the commits to a repository, unless it has them, and sets their branch.
func (c carriedCommits) into(ctx context.Context, r *cache.Repo, dir string) error {
	commits := c.commits()
	f, err := os.Open(filepath.Join(dir, filepath.Base(c.Pack)))
	if err != nil {
		return err
	}
	defer f.Close()
	lacks := false
	for _, commit := range commits {
		has, err := r.Has(ctx, commit)
		if err != nil {
			return err
		}
		lacks = lacks || !has
	}
	if !lacks {
		return nil
	}
	if err := r.Unpack(ctx, f, commits...); err != nil || c.Head == "" {
		return err
	}
	return r.SetBranch(ctx, c.Branch, c.Head)
}

// awaitStored waits, before something is done that cannot be done again, until its files are stored: another node could only repeat it otherwise.
func (w *attempt) awaitStored(ctx context.Context) {
	if w.project.cfg.Archive == nil || !w.project.req.Push && !w.project.req.MergeRequest || w.journal.Has(DeliverStep) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storedTime)
	defer cancel()
	w.project.cfg.Archive.Stored(ctx, w.res.Workspace)
}
