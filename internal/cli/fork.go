package cli

import (
	"fmt"
	"time"

	"hortus.dev/api"
)

type sandboxForkCmd struct {
	oneSandbox
	Count     *int     `short:"n" placeholder:"N" help:"How many children, 1 to 100 (default 1)."`
	TTL       duration `name:"ttl" placeholder:"5m" help:"How long each child lives at most; as long as the parent still has, when left out."`
	Env       []string `short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Variable for what starts in the children, besides the parent's. Repeatable."`
	Label     []string `short:"l" sep:"none" placeholder:"NAME=VALUE" help:"Label of the children. Repeatable."`
	FilesOnly bool     `name:"files-only" help:"Leave memory and processes out: the children have the parent's files alone."`
}

// Run forks a sandbox and prints the children. One that failed makes it fail.
func (c *sandboxForkCmd) Run(ctx runContext, a *app) error {
	req := api.ForkSandbox{Count: 1, TTLMS: c.TTL.ms(), FilesOnly: c.FilesOnly}
	if c.Count != nil {
		if req.Count = *c.Count; req.Count < 1 || req.Count > api.MaxForks {
			return api.Errorf(api.KindInvalid, "--count: %d is not between 1 and %d", req.Count, api.MaxForks)
		}
	}
	err := c.TTL.checkTTL()
	if err == nil {
		req.Env, err = assignments("--env", c.Env)
	}
	if err == nil {
		req.Labels, err = assignments("--label", c.Label)
	}
	if err != nil {
		return err
	}
	s, err := a.box(ctx, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	done := a.waiting("forking %s", s.ID())
	out, err := s.Fork(ctx, req)
	done()
	if err != nil {
		return err
	}
	return a.showFork(req, out)
}

// showFork prints what came of a fork: the children on stdout, what there is to say
// of them on stderr.
func (a *app) showFork(req api.ForkSandbox, out api.ForkResult) error {
	made := 0
	for _, child := range out.Children {
		if child.Sandbox != nil {
			made++
		}
	}
	if a.opt.JSON {
		if err := a.json(out); err != nil {
			return err
		}
	} else {
		for _, child := range out.Children {
			if child.Sandbox == nil {
				continue
			}
			if _, err := fmt.Fprintln(a.env.Stdout, clean(string(child.Sandbox.ID))); err != nil {
				return err
			}
		}
		a.note("%d of %d children with %s; %s stood still for %s", made, req.Count, kindOf(out.Kind), out.Parent, showMS(out.PausedMS))
		if out.Why != "" {
			a.note("files alone, because %s", out.Why)
		}
	}
	for n, child := range out.Children {
		if child.Sandbox != nil {
			continue
		}
		e := child.Error
		if e == nil {
			e = api.Errorf(api.KindInternal, "the daemon did not say why")
		}
		fmt.Fprintf(a.env.Stderr, "hortus: child %d of %d was not made: %s\n", n+1, req.Count, clean(e.Error()))
		if e.Hint != "" {
			fmt.Fprintf(a.env.Stderr, "  next: %s\n", clean(e.Hint))
		}
	}
	if made < req.Count {
		return exitCode(1)
	}
	return nil
}

// kindOf says in words what a snapshot or a child has of its origin.
func kindOf(k api.SnapshotKind) string {
	switch k {
	case api.SnapshotMemory:
		return "memory and files"
	case api.SnapshotFiles:
		return "files alone"
	}
	return clean(string(k))
}

// showMS writes a number of milliseconds for people.
func showMS(ms int64) string { return showDuration(time.Duration(ms) * time.Millisecond) }
