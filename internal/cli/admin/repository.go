package admin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/repository/git/checkout"
	"hortus.dev/internal/repository/toolchain"
	"hortus.dev/internal/task/gate"
)

// repositoryReport is what "hortus doctor --repo" prints with --json.
type repositoryReport struct {
	Directory string `json:"directory"`
	// Files are the manifests and lock files that decide what is installed.
	Files []string `json:"files"`
	// Gate is the command that decides about a task, GateFrom where it was found; NoGate is why there is none.
	Gate     string `json:"gate,omitempty"`
	GateFrom string `json:"gateFrom,omitempty"`
	NoGate   string `json:"noGate,omitempty"`
	// Setup are the commands that install the dependencies.
	Setup []string `json:"setup"`
	toolchain.Needs
	Programs []toolchain.Result `json:"programs"`
	Missing  bool               `json:"missing"`
}

// repositoryNeeds shows what the repository in a directory needs and what sandboxes have of it. It fails if something is missing.
func repositoryNeeds(ctx app.Context, a *app.App, dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return api.Errorf(api.KindInvalid, "--repo: %.200q is no directory", dir).WithHint("give the directory of a checkout, for example --repo .")
	}
	user := checkout.User{Environ: a.Env.Environ}
	info, err := user.Toplevel(ctx, dir)
	if err != nil {
		return err
	}
	if info.Bare {
		return api.Errorf(api.KindInvalid, "--repo: %s has no work tree", info.Root).WithHint("give the directory of a checkout")
	}
	paths, err := user.Files(ctx, info.Root)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(info.Root)
	if err != nil {
		return api.Errorf(api.KindInvalid, "--repo: %w", err)
	}
	defer root.Close()
	read := func(most int64) func(string) []byte {
		return func(p string) []byte {
			// A pipe in the place of a tracked file would block.
			if fi, err := root.Lstat(p); err != nil || !fi.Mode().IsRegular() {
				return nil
			}
			f, err := root.Open(p)
			if err != nil {
				return nil
			}
			defer f.Close()
			b, err := io.ReadAll(io.LimitReader(f, most))
			if err != nil {
				return nil
			}
			return b
		}
	}
	tests := gate.Tree{Paths: paths, Read: read(gate.MaxFile)}
	command, noGate := gate.Detect(tests)
	tree := dependency.Tree{Paths: paths, Read: read(dependency.MaxFile), GoTests: gate.GoTests(tests, command.Text)}
	plan, err := dependency.Of(tree)
	if err != nil {
		return err
	}
	r := repositoryReport{Directory: info.Root, Files: append([]string{}, plan.From...), Setup: []string{}, Needs: toolchain.Read(tree)}
	var calls []string
	for _, s := range plan.Steps {
		r.Setup = append(r.Setup, s.Name)
		calls = append(calls, s.Needs...)
	}
	if noGate != nil {
		r.NoGate = noGate.Error()
	} else {
		r.Gate, r.GateFrom = command.Text, command.From
		calls = append(calls, gate.Programs(command.Text)...)
	}
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	d, err := c.Doctor(ctx)
	if err != nil {
		return err
	}
	if d.Template.Error != "" {
		return api.Errorf(api.KindUnavailable, "template %s: %s", d.Template.Name, d.Template.Error)
	}
	r.Programs = r.Check(d.Template, calls...)
	r.Missing = slices.ContainsFunc(r.Programs, func(p toolchain.Result) bool { return p.Missing })
	if a.Flags.JSON {
		err = a.JSON(r)
	} else {
		err = showRepository(a, r)
	}
	if err == nil && r.Missing {
		return app.ExitCode(1)
	}
	return err
}

func showRepository(a *app.App, r repositoryReport) error {
	w := a.Table()
	fmt.Fprintf(w, "repository\t%s\n", human.Sanitize(r.Directory))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, human.Sanitize(text))
		}
	}
	line("found", strings.Join(r.Files, ", "))
	if r.Gate == "" {
		line("gate", "none: "+r.NoGate+"; set one with --verify CMD")
	} else {
		line("gate", r.Gate+" ("+r.GateFrom+")")
	}
	line("setup", strings.Join(r.Setup, "; "))
	if r.Image != "" {
		line("image", r.Image+" (from "+r.ImageFile+")")
	}
	line("container", r.Needs.Setup)
	for _, note := range r.Notes {
		line("note", note)
	}
	fmt.Fprintln(w)
	for _, p := range r.Programs {
		mark, has := "yes", strings.TrimSpace(p.Version+" "+p.Path)
		if p.Missing {
			mark = "no"
		}
		if p.Path == "" {
			has = "not in sandboxes"
		}
		var wanted []string
		for _, n := range p.Wanted {
			wanted = append(wanted, n.Version+" by "+n.File)
		}
		if len(wanted) > 0 {
			has += "; wanted: " + strings.Join(wanted, ", ")
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", mark, human.Sanitize(p.Program), human.Sanitize(has))
		if p.Fix != "" {
			fmt.Fprintf(w, "  \t\tfix: %s\n", human.Sanitize(p.Fix))
		}
	}
	if len(r.Programs) == 0 {
		fmt.Fprintln(w, "  no program is known that it needs")
	}
	return w.Flush()
}
