package sandbox

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type sandboxCodeCmd struct {
	oneSandbox
	File     string            `arg:"" optional:"" complete:"files" help:"File with the code (default: stdin, unless -e is given)."`
	Eval     *string           `short:"e" placeholder:"CODE" help:"The code itself."`
	Language string            `short:"l" placeholder:"NAME" help:"python (default), javascript, typescript or bash; each has a default context."`
	Context  string            `placeholder:"ID" help:"Context of the code, instead of a language."`
	Env      map[string]string `placeholder:"NAME=VALUE" help:"Variable of this code alone. Repeatable."`
	Out      string            `placeholder:"DIR" help:"Write images, tables and other forms of the results into this directory."`
	Contexts bool              `help:"List the contexts, and run nothing."`
	Restart  string            `placeholder:"CONTEXT" help:"Restart a context without what it had, and run nothing."`
}

// Help returns what the first line of help does not.
func (sandboxCodeCmd) Help() string {
	return `What a piece of code defines stays for the next one. The value of its last line is printed.

    hortus sandbox code ID -e 'x = 20'
    hortus sandbox code ID -e 'x + 1'
    hortus sandbox code ID -l javascript -e 'await fetch("http://localhost:3000").then((r) => r.status)'
    hortus sandbox code ID --out charts plot.py

The exit code is 1 if the code failed. Ctrl-C interrupts the code; its context keeps what it had.`
}

// Run runs code in the sandbox's code interpreter.
func (c *sandboxCodeCmd) Run(ctx app.Context, a *app.App) error {
	if c.Eval != nil && c.File != "" {
		return api.Errorf(api.KindInvalid, "both -e and the file %q have code: give one of them", c.File)
	}
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	switch {
	case c.Restart != "":
		return s.RestartCodeContext(ctx, c.Restart)
	case c.Contexts:
		list, err := s.CodeContexts(ctx)
		if err != nil {
			return err
		}
		if a.Flags.JSON {
			return a.JSON(list)
		}
		for _, x := range list {
			fmt.Fprintf(a.Env.Stdout, "%s\t%s\t%s\n", x.ID, x.Language, human.Sanitize(x.Dir))
		}
		return nil
	}
	var code []byte
	if c.Eval != nil {
		code = []byte(*c.Eval)
	} else if code, err = a.ReadInput(cmp.Or(c.File, "-")); err != nil {
		return err
	}
	return c.show(ctx, a, s, api.RunCode{Code: string(code), Language: c.Language, Context: c.Context, Env: c.Env})
}

// show runs code, and shows its events.
func (c *sandboxCodeCmd) show(ctx app.Context, a *app.App, s *client.Sandbox, req api.RunCode) error {
	var all []api.CodeEvent
	failed := false
	files := 0
	for e, err := range s.RunCode(ctx, req) {
		if err != nil {
			return err
		}
		failed = failed || e.Type == api.CodeError
		if e.Type == api.CodeResult && c.Out != "" {
			n, err := c.write(a, e, files)
			if err != nil {
				return err
			}
			files += n
		}
		if a.Flags.JSON {
			all = append(all, e)
			continue
		}
		switch e.Type {
		case api.CodeStdout:
			io.WriteString(a.Env.Stdout, e.Text)
		case api.CodeStderr:
			io.WriteString(a.Env.Stderr, e.Text)
		case api.CodeResult:
			fmt.Fprintln(a.Env.Stdout, e.Text)
			if _, image := e.Formats["png"]; image && c.Out == "" {
				a.Note("the result has an image; to write it into a directory: --out DIR")
			}
		case api.CodeError:
			fmt.Fprintln(a.Env.Stderr, strings.TrimRight(e.Traceback, "\n"))
		}
	}
	if a.Flags.JSON {
		if err := a.JSON(all); err != nil {
			return err
		}
	}
	if failed {
		return app.ExitCode(1)
	}
	return nil
}

// endings are the names of files for the forms of a result. All others are JSON.
var endings = map[string]string{"html": ".html", "markdown": ".md", "svg": ".svg", "latex": ".tex", "javascript": ".js", "png": ".png", "jpeg": ".jpg", "pdf": ".pdf"}

// write writes the forms of a result into files, over those of an earlier call, and returns 1 if it has any.
func (c *sandboxCodeCmd) write(a *app.App, e api.CodeEvent, n int) (written int, err error) {
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return 0, api.Errorf(api.KindInvalid, "%w", err)
	}
	for _, form := range slices.Sorted(maps.Keys(endings)) {
		var text string
		if json.Unmarshal(e.Formats[form], &text) != nil {
			continue // there is none
		}
		data := []byte(text)
		if form == "png" || form == "jpeg" || form == "pdf" {
			if data, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", "")); err != nil {
				return written, api.Errorf(api.KindUnavailable, "the code interpreter gave a %s that is not base64: %w", form, err)
			}
		}
		name := filepath.Join(c.Out, fmt.Sprintf("result-%d%s", n+1, endings[form]))
		if err := os.WriteFile(name, data, 0o666); err != nil {
			return written, api.Errorf(api.KindInvalid, "%w", err)
		}
		a.Note("%s: %s", name, human.Size(int64(len(data))))
		written++
	}
	return min(written, 1), nil
}
