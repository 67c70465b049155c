package completion

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/install"
	"hortus.dev/internal/platform/config"
)

//go:embed scripts/hortus.bash
var bashScript string

//go:embed scripts/hortus.zsh
var zshScript string

//go:embed scripts/hortus.fish
var fishScript string

// Command is "hortus completion".
type Command struct {
	Shell   string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
	Install bool   `help:"Install the script for the shell instead of printing it."`
}

func (*Command) WithoutConfig() {}

// Run prints a shell's completion script, or installs it.
func (c *Command) Run(a *app.App) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	if !c.Install {
		_, err := io.WriteString(a.Env.Stdout, script)
		return err
	}
	path, err := install.CompletionPath(a, c.Shell)
	if err != nil {
		return err
	}
	if err := install.Write(path, script); err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(map[string]string{"installed": path})
	}
	a.Note("installed %s; new shells have it", path)
	if c.Shell == "zsh" && a.Env.UID != 0 {
		a.Note("zsh looks there when .zshrc says, before compinit: fpath=(%s $fpath)", filepath.Dir(path))
	}
	return nil
}

// Name is the hidden command that the shells' scripts call: after -- come
// the words of the command line, the last of them the one to complete. It prints
// candidates, one a line, with a tab before what describes them; ":files",
// ":dirs" and ":nospace" are for the script.
const Name = "__complete"

// completeWait bounds the question for identifiers: nobody waits longer for a
// list.
const completeWait = time.Second

// completer completes one command line.
type completer struct {
	app   *app.App
	node  *kong.Node
	value *kong.Value // what the last word is a value of
	pos   int         // positional arguments seen
	plain bool        // after --, or in a command of the user's
	given map[string]string
}

// Complete prints the candidates for the last of words.
func Complete(ctx context.Context, a *app.App, model *kong.Application, words []string) error {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	c := &completer{app: a, node: model.Node, given: map[string]string{}}
	last := len(words) - 1
	for _, w := range words[:last] {
		c.word(w)
	}
	for _, line := range c.candidates(ctx, words[last]) {
		fmt.Fprintln(a.Env.Stdout, line)
	}
	return nil
}

// flags returns the flags that may stand here.
func (c *completer) flags() (out []*kong.Flag) {
	nodes := []*kong.Node{}
	if d := c.node.DefaultCmd; d != nil {
		nodes = append(nodes, d)
	}
	for n := c.node; n != nil; n = n.Parent {
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		for _, f := range n.Flags {
			if !f.Hidden {
				out = append(out, f)
			}
		}
	}
	return out
}

func (c *completer) flag(match func(*kong.Flag) bool) *kong.Flag {
	flags := c.flags()
	if i := slices.IndexFunc(flags, match); i >= 0 {
		return flags[i]
	}
	return nil
}

// word takes a word that is complete.
func (c *completer) word(w string) {
	value := c.value
	c.value = nil
	switch {
	case value != nil:
		c.given[value.Name] = w
	case c.plain:
		c.pos++
	case w == "--":
		c.plain = true
	case strings.HasPrefix(w, "--"):
		name, text, inline := strings.Cut(w[2:], "=")
		f := c.flag(func(f *kong.Flag) bool { return f.Name == name })
		switch {
		case f == nil || f.IsBool():
		case inline:
			c.given[f.Name] = text
		default:
			c.value = f.Value
		}
	case len(w) > 1 && w[0] == '-':
		for i, r := range w[1:] {
			f := c.flag(func(f *kong.Flag) bool { return f.Short == r })
			if f == nil || f.IsBool() {
				continue
			}
			if i == len(w)-2 {
				c.value = f.Value
			}
			return // the rest is its value
		}
	default:
		for _, child := range c.node.Children {
			if child.Name == w || slices.Contains(child.Aliases, w) {
				c.node, c.pos = child, 0
				return
			}
		}
		if c.node.DefaultCmd != nil {
			c.node = c.node.DefaultCmd
		}
		if p := c.positional(); p != nil && p.Passthrough {
			c.plain = true
		}
		c.pos++
	}
}

// positional is the argument that comes next.
func (c *completer) positional() *kong.Positional {
	list := c.node.Positional
	if c.pos < len(list) {
		return list[c.pos]
	}
	if n := len(list); n > 0 && list[n-1].IsCumulative() {
		return list[n-1]
	}
	return nil
}

// candidates completes a word.
func (c *completer) candidates(ctx context.Context, cur string) []string {
	if c.value != nil {
		return c.values(ctx, c.value, cur, "")
	}
	if name, text, ok := strings.Cut(cur, "="); ok && !c.plain && strings.HasPrefix(name, "--") {
		if f := c.flag(func(f *kong.Flag) bool { return f.Name == name[2:] }); f != nil {
			return c.values(ctx, f.Value, text, name+"=")
		}
		return nil
	}
	var out []string
	if strings.HasPrefix(cur, "-") && !c.plain {
		for _, f := range c.flags() {
			out = add(out, "--"+f.Name, f.Help, cur)
		}
		return out
	}
	if !c.node.Leaf() && !c.plain {
		for _, n := range c.node.Children {
			if !n.Hidden {
				out = add(out, n.Name, n.Help, cur)
			}
		}
		return out
	}
	if p := c.positional(); p != nil {
		return c.values(ctx, p, cur, "")
	}
	return nil
}

// add appends a candidate that begins as the word does.
func add(out []string, candidate, about, cur string) []string {
	if !strings.HasPrefix(candidate, cur) {
		return out
	}
	if about != "" {
		candidate += "\t" + human.Sanitize(about)
	}
	return append(out, candidate)
}

// values completes a value of a flag or an argument.
func (c *completer) values(ctx context.Context, v *kong.Value, cur, prefix string) (out []string) {
	var known []string
	if v.Enum != "" {
		known = v.EnumSlice()
	}
	for _, s := range config.Settings() {
		if slices.Contains(v.Tag.Envs, s.Env) {
			known = append(known, s.Allowed...)
			if s.Key == "sandbox.template" || s.Key == "task.model" || s.Key == "task.small-model" {
				known = append(known, s.Default)
			}
		}
	}
	for _, k := range known {
		if k != "" {
			out = add(out, prefix+k, "", prefix+cur)
		}
	}
	switch v.Tag.Get("complete") {
	case "files":
		out = append(out, ":files")
	case "dirs":
		out = append(out, ":dirs")
	case "users":
		for _, name := range []string{"user", "root"} {
			out = add(out, prefix+name, "", prefix+cur)
		}
	case "isolations":
		for _, name := range config.Isolations() {
			out = add(out, prefix+name, "", prefix+cur)
		}
	case "gates":
		for _, name := range []string{api.GateBefore, api.GateResult, api.GateOriginal, api.GateWithout, api.GateDisguised, api.GateAcceptance, api.GateMutant, "setup-01"} {
			out = add(out, prefix+name, "", prefix+cur)
		}
	case "sandboxes":
		out = c.sandboxes(ctx, out, cur, "")
	case "tasks":
		out = c.tasks(ctx, out, cur)
	case "repositories":
		out = append(c.repositories(ctx, out, cur, prefix), ":dirs")
	case "connected":
		out = c.repositories(ctx, out, cur, prefix)
	case "snapshots":
		out = c.snapshots(ctx, out, cur, prefix)
	case "secrets":
		out = c.secrets(ctx, out, cur)
	case "documents":
		out = c.documents(ctx, out, cur)
	case "lessons":
		out = c.lessons(ctx, out, cur)
	case "sessions":
		return c.sessions(ctx, out, cur)
	case "workspaces":
		out = c.workspaces(ctx, out, cur, prefix)
	case "templates":
		out = c.templates(ctx, out, cur, prefix)
	case "images":
		out = append(c.images(ctx, out, cur, prefix), ":files")
	case "warm":
		out = c.warm(ctx, out, cur, prefix)
	case "places":
		if out = c.sandboxes(ctx, out, cur, ":"); len(out) > 0 {
			out = append(out, ":nospace")
		}
		out = append(out, ":files")
	}
	return out
}
