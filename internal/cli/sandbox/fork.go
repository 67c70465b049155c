package sandbox

import (
	"fmt"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

type sandboxForkCmd struct {
	oneSandbox
	Count      *int           `short:"n" placeholder:"N" help:"Number of children (1 to 100, default 1)."`
	TTL        flags.Duration `name:"ttl" placeholder:"5m" help:"Time to live of each child (default: what is left of the parent's)."`
	Env        []string       `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Environment variable for new commands in the children, in addition to the parent's. Repeatable."`
	Label      []string       `short:"l" sep:"none" placeholder:"NAME=VALUE" help:"Label of the children. Repeatable."`
	Secret     []string       `sep:"none" complete:"secrets" placeholder:"NAME" help:"Secret of the parent that the children may use too (default: none). Repeatable."`
	FilesOnly  bool           `name:"files-only" help:"Fork files only; do not copy memory or running processes."`
	CopyMemory bool           `name:"copy-memory" help:"Give each child memory of its own from the start; without it, children share memory until they write it."`
}

// Run forks a sandbox and prints the children. One that failed makes it fail.
func (c *sandboxForkCmd) Run(ctx app.Context, a *app.App) error {
	req := api.ForkSandbox{Count: 1, TTLMS: c.TTL.Milliseconds(), FilesOnly: c.FilesOnly, CopyMemory: c.CopyMemory, Secrets: c.Secret}
	if c.Count != nil {
		if req.Count = *c.Count; req.Count < 1 || req.Count > api.MaxForks {
			return api.Errorf(api.KindInvalid, "--count: %d is not between 1 and %d", req.Count, api.MaxForks)
		}
	}
	err := c.TTL.CheckTTL()
	if err == nil {
		req.Env, err = flags.Assignments("--env", c.Env)
	}
	if err == nil {
		req.Labels, err = flags.Assignments("--label", c.Label)
	}
	if err != nil {
		return err
	}
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	done := waiting(a, "forking %s", s.ID())
	out, err := s.Fork(ctx, req)
	done()
	if err != nil {
		return err
	}
	return showFork(a, req, out)
}

// showFork prints what came of a fork: the children on stdout, what there is to say
// of them on stderr.
func showFork(a *app.App, req api.ForkSandbox, out api.ForkResult) error {
	made := 0
	for _, child := range out.Children {
		if child.Sandbox != nil {
			made++
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(out); err != nil {
			return err
		}
	} else {
		for _, child := range out.Children {
			if child.Sandbox == nil {
				continue
			}
			if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(child.Sandbox.ID))); err != nil {
				return err
			}
		}
		a.Note("%d of %d children with %s; %s was paused for %s", made, req.Count, KindText(out.Kind), out.Parent, human.Milliseconds(out.PausedMS))
		for _, child := range out.Children {
			if s := child.Sandbox; s != nil && s.Workspace != "" {
				a.Note("%s has workspace %s, which stays until: hortus workspace rm %s", s.ID, s.Workspace, s.Workspace)
			}
		}
		if out.Why != "" {
			a.Note("files only: %s", out.Why)
		}
		if out.MemoryWhy != "" {
			a.Note("memory was copied: %s", out.MemoryWhy)
		}
	}
	for n, child := range out.Children {
		if child.Sandbox != nil {
			continue
		}
		e := child.Error
		if e == nil {
			e = api.Errorf(api.KindInternal, "unknown reason")
		}
		fmt.Fprintf(a.Env.Stderr, "hortus: child %d of %d was not made: %s\n", n+1, req.Count, human.Sanitize(e.Error()))
		if e.Hint != "" {
			fmt.Fprintf(a.Env.Stderr, "  next: %s\n", human.Sanitize(e.Hint))
		}
	}
	if made < req.Count {
		return app.ExitCode(1)
	}
	return nil
}

// KindText says in words what a snapshot or a child has of its origin.
func KindText(k api.SnapshotKind) string {
	switch k {
	case api.SnapshotMemory:
		return "memory and files"
	case api.SnapshotFiles:
		return "files alone"
	}
	return human.Sanitize(string(k))
}
