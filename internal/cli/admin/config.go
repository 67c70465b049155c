package admin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/contexts"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/platform/config"
)

func (*configPathCmd) WithoutConfig() {}

// ConfigCommand is "hortus config".
type ConfigCommand struct {
	Show configShowCmd `cmd:"" help:"Show every setting, its value and its origin."`
	Path configPathCmd `cmd:"" help:"Print the name of the configuration file."`
}

type configPathCmd struct{}

// Run prints the file's name, whether it is there or not.
func (*configPathCmd) Run(a *app.App) error {
	src := config.Source{Getenv: a.Getenv, UID: a.Env.UID}
	path := a.Flags.Config
	if path == "" {
		path = a.Getenv("HORTUS_CONFIG")
	}
	if path == "" {
		path = config.DefaultPath(src)
	}
	if path == "" {
		return api.Errorf(api.KindInvalid, "no home directory for the configuration file").WithHint("name a file: --config FILE")
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"path": path})
	}
	_, err := fmt.Fprintln(a.Env.Stdout, path)
	return err
}

type configShowCmd struct{}

// Run shows every setting.
func (*configShowCmd) Run(a *app.App) error {
	all := a.Config.All()
	for _, p := range a.Parsed.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		for i, v := range all {
			if v.Setting.Flag == p.Flag.Name {
				all[i].Text, all[i].Origin = fmt.Sprint(a.Parsed.FlagValue(p.Flag)), config.Origin{Kind: config.FromFlag, Name: p.Flag.Name}
			}
		}
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			Path     string         `json:"path"`
			Found    bool           `json:"found"`
			Settings []config.Value `json:"settings"`
		}{a.Config.Path, a.Config.Found, all})
	}
	found := ""
	if !a.Config.Found {
		found = " (there is none)"
	}
	w := a.Table()
	_, err := fmt.Fprintf(w, "# file: %s%s\nSETTING\tVALUE\tORIGIN\tVARIABLE\n", human.Sanitize(a.Config.Path), found)
	for _, v := range all {
		text := v.Text
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Setting.Key, human.Sanitize(text), human.Sanitize(v.Origin.String()), v.Setting.Env)
	}
	return errors.Join(err, w.Flush())
}

// ContextCommand is "hortus context".
type ContextCommand struct {
	Add contextAddCmd `cmd:"" help:"Add a named daemon: its --host, and an API key from a file, stdin or HORTUS_API_KEY."`
	Use contextUseCmd `cmd:"" help:"Set the default context. Use \"local\" for this machine's own daemon."`
	Ls  contextLsCmd  `cmd:"" help:"List contexts."`
	Rm  contextRmCmd  `cmd:"" help:"Remove contexts and their keys."`
}

type contextAddCmd struct {
	Name    string `arg:"" help:"Name of the context."`
	KeyFile string `name:"key-file" complete:"files" placeholder:"FILE" help:"File with the API key; - reads stdin."`
}

// Run adds a context, or replaces it.
func (c *contextAddCmd) Run(ctx app.Context, a *app.App) error {
	if err := contexts.CheckName(c.Name); err != nil {
		return err
	}
	if a.Flags.Host == "" {
		return &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "the URL is missing").WithHint("hortus context add %s --host URL --key-file FILE", c.Name)}
	}
	// A key is no argument: arguments are seen by everybody on the machine.
	key := a.Getenv("HORTUS_API_KEY")
	if c.KeyFile != "" {
		b, err := a.ReadInput(c.KeyFile)
		if err != nil {
			return err
		}
		key = strings.TrimSpace(string(b))
	}
	if key == "" {
		return api.Errorf(api.KindInvalid, "no API key for %.100s", a.Flags.Host).WithHint("--key-file FILE, --key-file - for stdin, or HORTUS_API_KEY")
	}
	r := contexts.Daemon{Host: a.Flags.Host, Key: key}
	if err := r.Check(); err != nil {
		return api.Errorf(api.KindInvalid, "%w", err).WithHint("the URL must be http or https, for example https://hortus.example; a key is e2b_ and 40 hexadecimal digits")
	}
	err := a.ChangeContexts(ctx, func(all *contexts.File) error {
		all.Contexts[c.Name] = r
		return nil
	})
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"added": c.Name, "host": a.Flags.Host})
	}
	a.Note("added. To make it the default: hortus context use %s", c.Name)
	return nil
}

type contextUseCmd struct {
	Name string `arg:"" help:"Name of a context, or local."`
}

// Run chooses a context.
func (c *contextUseCmd) Run(ctx app.Context, a *app.App) error {
	err := a.ChangeContexts(ctx, func(all *contexts.File) error {
		if _, ok := all.Contexts[c.Name]; !ok && c.Name != contexts.Local {
			return contexts.NotFound(c.Name)
		}
		if all.Current = c.Name; c.Name == contexts.Local {
			all.Current = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"current": c.Name})
	}
	return nil
}

type contextLsCmd struct{}

// Run lists contexts, without their keys.
func (contextLsCmd) Run(a *app.App) error {
	all, err := a.Contexts()
	if err != nil {
		return err
	}
	type row struct {
		Name    string `json:"name"`
		Host    string `json:"host,omitempty"`
		Current bool   `json:"current"`
	}
	rows := []row{{Name: contexts.Local, Current: all.Current == ""}}
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		rows = append(rows, row{name, all.Contexts[name].Host, all.Current == name})
	}
	return app.ShowList(a, rows, "CURRENT NAME HOST", func(r row) []string {
		return []string{map[bool]string{true: "*"}[r.Current], human.Sanitize(r.Name), human.Sanitize(r.Host)}
	})
}

type contextRmCmd struct {
	Names []string `arg:"" name:"name" help:"Names of the contexts."`
}

// Run forgets contexts.
func (c *contextRmCmd) Run(ctx app.Context, a *app.App) error {
	err := a.ChangeContexts(ctx, func(all *contexts.File) error {
		for _, name := range c.Names {
			if _, ok := all.Contexts[name]; !ok {
				return contexts.NotFound(name)
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
	if a.Flags.JSON {
		return a.JSON(map[string][]string{"removed": c.Names})
	}
	return nil
}
