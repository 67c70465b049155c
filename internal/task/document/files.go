package document

import (
	"context"
	"path"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// Files lists the documents of a repository: the files NAME.md in .hortus/context of the commit that ref names, "" for the
// default branch. It fetches the repository. Links are listed as unusable, and never followed.
func (d *Documents) Files(ctx context.Context, repository, ref string) ([]api.ContextFile, error) {
	if d.cfg.Cache == nil {
		return nil, api.Errorf(api.KindUnsupported, "git is not installed, and files of repositories need it").
			WithHint("Install git and restart the daemon: hortus daemon stop.")
	}
	source, err := d.cfg.Source(ctx, repository)
	if err != nil {
		return nil, err
	}
	repo, err := d.cfg.Cache.Fetch(ctx, source, nil)
	if err != nil {
		return nil, err
	}
	commit, err := repo.Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	all, err := repo.Files(ctx, commit.Hash)
	if err != nil {
		return nil, err
	}
	var out []api.ContextFile
	for _, e := range all {
		if !strings.HasPrefix(e.Path, api.ContextDir) || !api.ValidContextFile(e.Path) {
			continue
		}
		if len(out) == api.MaxContextFiles {
			return nil, api.Errorf(api.KindExhausted, "commit %.12s has more than %d files in %s", commit.Hash, api.MaxContextFiles, api.ContextDir)
		}
		name := strings.TrimSuffix(path.Base(e.Path), ".md")
		f := api.ContextFile{Path: e.Path, Title: name, Bytes: e.Size, Commit: commit.Hash}
		switch {
		case e.Mode != cache.Regular && e.Mode != cache.Executable:
			f.Unusable = "it is a link or a submodule"
		case e.Size > api.MaxDocument:
			f.Unusable = "it has more than 32 KiB"
		default:
			text, err := repo.Content(ctx, e, api.MaxDocument)
			if err != nil {
				return nil, err
			}
			f.Title = heading(string(text), name)
		}
		out = append(out, f)
	}
	return out, nil
}
