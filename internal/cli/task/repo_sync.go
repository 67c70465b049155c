package task

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type repoSyncCmd struct {
	Names   []string `arg:"" optional:"" name:"name" complete:"connected" help:"Repositories to fetch (default: all)."`
	Prepare bool     `help:"Then prepare them in the background: the daemon installs what a new commit needs. hortus repo show NAME shows the result."`
}

// Run fetches repositories, one after the other. One that fails does not stop the others.
func (c *repoSyncCmd) Run(ctx app.Context, a *app.App) error {
	a.NeedForges = true
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	var list []api.Repository
	if len(c.Names) == 0 {
		if list, err = cl.Repositories.List(ctx); err != nil {
			return err
		}
	}
	for _, name := range c.Names {
		r, err := cl.Repositories.Get(ctx, name)
		if err != nil {
			return app.Missing(err, "hortus repo ls")
		}
		list = append(list, r)
	}
	out, failed := []api.Repository{}, error(nil)
	for _, old := range list {
		r, err := fetched(ctx, a, old.Name, func(ctx context.Context, cl *client.Client, line func(string)) (api.Repository, error) {
			if c.Prepare {
				return cl.Repositories.SyncAndPrepare(ctx, string(old.ID), line)
			}
			return cl.Repositories.Sync(ctx, string(old.ID), line)
		})
		if api.KindOf(err) == api.KindCanceled {
			return err
		}
		if err != nil {
			if len(list) == 1 {
				return err
			}
			failed = err
			a.Note("%s: failed: %s", old.Name, err)
			continue
		}
		out = append(out, r)
		if a.Flags.JSON {
			continue
		}
		switch {
		case r.Objects == 0 && r.Commit == old.Commit:
			a.Note("%s: nothing new, %s", r.Name, tip(r))
		case r.Commit == old.Commit || old.Commit == "":
			a.Note("%s: %s in %s, %s", r.Name, objects(r.Objects), human.Milliseconds(r.FetchMS), tip(r))
		default:
			a.Note("%s: %s in %s, %s; it was at %.12s", r.Name, objects(r.Objects), human.Milliseconds(r.FetchMS), tip(r), old.Commit)
		}
		if c.Prepare {
			a.Note("%s is prepared in the background; to see the result: hortus repo show %s", r.Name, r.Name)
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(out); err != nil {
			return err
		}
	}
	if failed != nil {
		return api.Errorf(api.KindOf(failed), "%d of %d repositories could not be fetched", len(list)-len(out), len(list)).WithHint("hortus repo show NAME says why")
	}
	return nil
}
