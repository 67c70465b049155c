package repo

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

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

// access lists what the sandbox of the agent has read-only. A link is not in it, because it cannot
// be mounted; its change is refused.
func (w *project) access(ctx context.Context) ([]filerule.Access, error) {
	if !w.files.Restricts() {
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
	return w.files.Access(paths)
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
