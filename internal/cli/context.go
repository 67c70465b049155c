package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"hortus.dev/api"
)

// localContext is the name of this machine's own daemon.
const localContext = "local"

type contextCmd struct {
	Add contextAddCmd `cmd:"" help:"Name a daemon: its --host, and a key from a file, stdin or HORTUS_API_KEY."`
	Use contextUseCmd `cmd:"" help:"Have commands speak to it from now on; local is this machine."`
	Ls  contextLsCmd  `cmd:"" help:"List contexts."`
	Rm  contextRmCmd  `cmd:"" help:"Forget contexts, with their keys."`
}

type contextAddCmd struct {
	Name    string `arg:"" help:"What to call it."`
	KeyFile string `name:"key-file" complete:"files" placeholder:"FILE" help:"File with its API key; - is stdin."`
}

// Run adds a context, or replaces it.
func (c *contextAddCmd) Run(ctx runContext, a *app) error {
	if err := checkContextName(c.Name); err != nil {
		return err
	}
	if a.opt.Host == "" {
		return &failure{2, api.Errorf(api.KindInvalid, "the address is missing").WithHint("hortus context add %s --host URL --key-file FILE", c.Name)}
	}
	// A key is no argument: arguments are seen by everybody on the machine.
	key := a.getenv("HORTUS_API_KEY")
	if c.KeyFile != "" {
		b, err := a.readInput(c.KeyFile)
		if err != nil {
			return err
		}
		key = strings.TrimSpace(string(b))
	}
	if key == "" {
		return api.Errorf(api.KindInvalid, "there is no API key for %.100s", a.opt.Host).WithHint("--key-file FILE, --key-file - for stdin, or HORTUS_API_KEY")
	}
	r := remote{Host: a.opt.Host, Key: key}
	if err := r.check(); err != nil {
		return api.Errorf(api.KindInvalid, "%w", err).WithHint("an address is http or https, for example https://hortus.example; a key is e2b_ and 40 hexadecimal digits")
	}
	err := a.changeContexts(ctx, func(all *contexts) error {
		all.Contexts[c.Name] = r
		return nil
	})
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(map[string]string{"added": c.Name, "host": a.opt.Host})
	}
	a.note("added; hortus context use %s has commands speak to it", c.Name)
	return nil
}

type contextUseCmd struct {
	Name string `arg:"" help:"A context, or local."`
}

// Run chooses a context.
func (c *contextUseCmd) Run(ctx runContext, a *app) error {
	err := a.changeContexts(ctx, func(all *contexts) error {
		if _, ok := all.Contexts[c.Name]; !ok && c.Name != localContext {
			return noContext(c.Name)
		}
		if all.Current = c.Name; c.Name == localContext {
			all.Current = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(map[string]string{"current": c.Name})
	}
	return nil
}

func noContext(name string) error {
	return api.Errorf(api.KindNotFound, "there is no context %.80q", name).WithHint("hortus context ls lists them; an address begins with http:// or https://")
}

type contextLsCmd struct{}

// Run lists contexts, without their keys.
func (contextLsCmd) Run(a *app) error {
	all, err := a.contexts()
	if err != nil {
		return err
	}
	type row struct {
		Name    string `json:"name"`
		Host    string `json:"host,omitempty"`
		Current bool   `json:"current"`
	}
	rows := []row{{Name: localContext, Current: all.Current == ""}}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		rows = append(rows, row{name, all.Contexts[name].Host, all.Current == name})
	}
	if a.opt.JSON {
		return a.json(rows)
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CURRENT\tNAME\tHOST")
	for _, r := range rows {
		mark := ""
		if r.Current {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", mark, clean(r.Name), clean(r.Host))
	}
	return w.Flush()
}

type contextRmCmd struct {
	Names []string `arg:"" name:"name" help:"Contexts."`
}

// Run forgets contexts.
func (c *contextRmCmd) Run(ctx runContext, a *app) error {
	err := a.changeContexts(ctx, func(all *contexts) error {
		for _, name := range c.Names {
			if _, ok := all.Contexts[name]; !ok {
				return noContext(name)
			}
			delete(all.Contexts, name)
			if all.Current == name {
				all.Current = ""
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(map[string][]string{"removed": c.Names})
	}
	return nil
}
