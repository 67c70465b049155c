package sandbox

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
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
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
)

// code are the arguments and flags of a piece of code.
type code struct {
	File     string  `arg:"" optional:"" complete:"files" help:"File with the code (default: stdin, unless -c is given)."`
	Code     *string `short:"c" placeholder:"CODE" help:"The code itself."`
	Language string  `placeholder:"NAME" help:"python (default), javascript, typescript or bash; each has a default context. A file's name may say it too."`
	Out      string  `placeholder:"DIR" help:"Write images, tables and other forms of the results into this directory."`
}

// languages are those that the name of a file says.
var languages = map[string]string{".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".ts": "typescript", ".mts": "typescript", ".sh": "bash", ".bash": "bash"}

// read returns what is to be run.
func (c *code) read(a *app.App) (api.RunCode, error) {
	if c.Code != nil && c.File != "" {
		return api.RunCode{}, api.Errorf(api.KindInvalid, "both -c and the file %q have code: give one of them", c.File)
	}
	req := api.RunCode{Language: cmp.Or(c.Language, languages[filepath.Ext(c.File)])}
	if c.Code != nil {
		req.Code = *c.Code
		return req, nil
	}
	text, err := a.ReadInput(cmp.Or(c.File, "-"))
	req.Code = string(text)
	return req, err
}

// CodeCommand is "hortus code".
type CodeCommand struct {
	code
	flags.Sandbox
}

// Help returns what the first line of help does not.
func (CodeCommand) Help() string {
	return `The value of the last line is printed. The sandbox has no network, unless a flag allows it.

    hortus code -c 'import sys; sys.version'
    hortus code --language javascript -c '[1, 2, 3].map((v) => v * 2)'
    hortus code --out charts plot.py

To keep what the code defines for more code: hortus sandbox create, then hortus sandbox code. The exit code is 1 if the code failed.`
}

// Run runs code in a sandbox of its own, which ends with this process.
func (c *CodeCommand) Run(ctx app.Context, a *app.App) error {
	req, err := c.CreateRequest()
	if err != nil {
		return err
	}
	run, err := c.code.read(a)
	if err == nil && req.Isolation == "wasm" && (run.Language == "" || run.Language == "python") {
		err = lacks("the code", run.Code)
	}
	if err != nil {
		return err
	}
	pull, err := image.Wanted(a, &c.Sandbox, &req)
	if err != nil {
		return err
	}
	if req.TTLMS == 0 {
		req.TTLMS = untilHeld.Milliseconds()
	}
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if _, err := image.Use(ctx, a, cl, pull, &req); err != nil {
		return err
	}
	asked, done := starting(ctx, a, req)
	s, err := cl.Sandboxes.Create(asked, req)
	done()
	if err != nil {
		return err
	}
	defer s.Close()
	release, err := s.Hold(ctx)
	if err != nil {
		return errors.Join(err, destroy(ctx, a, s))
	}
	defer release()
	var info api.Sandbox
	if c.TTL == 0 {
		info, err = s.SetTTL(ctx, api.MaxTTL)
	} else {
		info, err = s.Info(ctx)
	}
	if err == nil {
		warnUnenforced(a, info)
		err = c.show(ctx, a, s, run)
	}
	return errors.Join(err, destroy(ctx, a, s))
}

type sandboxCodeCmd struct {
	oneSandbox
	code
	Context  string            `placeholder:"ID" help:"Context of the code, instead of a language."`
	Env      map[string]string `placeholder:"NAME=VALUE" help:"Variable of this code alone. Repeatable."`
	Contexts bool              `help:"List the contexts, and run nothing."`
	Restart  string            `placeholder:"CONTEXT" help:"Restart a context without what it had, and run nothing."`
}

// Help returns what the first line of help does not.
func (sandboxCodeCmd) Help() string {
	return `What a piece of code defines stays for the next one. The value of its last line is printed.

    hortus sandbox code ID -c 'x = 20'
    hortus sandbox code ID -c 'x + 1'
    hortus sandbox code ID --language javascript -c 'await fetch("http://localhost:3000").then((r) => r.status)'
    hortus sandbox code ID --out charts plot.py

The exit code is 1 if the code failed. Ctrl-C interrupts the code; its context keeps what it had.`
}

// Run runs code in the sandbox's code interpreter.
func (c *sandboxCodeCmd) Run(ctx app.Context, a *app.App) error {
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
		return app.ShowList(a, list, "CONTEXT LANGUAGE DIRECTORY", func(x api.CodeContext) []string {
			return []string{human.Sanitize(x.ID), human.Sanitize(x.Language), human.Sanitize(x.Dir)}
		})
	}
	run, err := c.code.read(a)
	if err != nil {
		return err
	}
	run.Context, run.Env = c.Context, c.Env
	if run.Context != "" && c.Language == "" {
		run.Language = "" // the context has one, whatever the file's name says
	}
	return c.show(ctx, a, s, run)
}

// show runs code, and shows its events.
func (c *code) show(ctx app.Context, a *app.App, s *client.Sandbox, req api.RunCode) error {
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
func (c *code) write(a *app.App, e api.CodeEvent, n int) (written int, err error) {
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
