package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// ReportError prints an error for a person, and with --json as a document as well.
func (a *App) ReportError(err error) {
	fmt.Fprintf(a.Env.Stderr, "hortus: %s\n", human.Sanitize(err.Error()))
	hint := api.HintOf(err)
	if hint != "" {
		fmt.Fprintf(a.Env.Stderr, "  next: %s\n", human.Sanitize(hint))
	}
	if a.Flags.JSON {
		_ = a.JSON(map[string]api.Error{"error": {Kind: api.KindOf(err), Message: err.Error(), Hint: hint}})
	}
}

// JSON prints one document.
func (a *App) JSON(v any) error {
	enc := json.NewEncoder(a.Env.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return api.Errorf(api.KindInternal, "write the answer: %w", err)
	}
	return nil
}

// Note prints a line on stderr, unless silence is wanted.
func (a *App) Note(format string, args ...any) {
	if !a.Flags.Quiet {
		fmt.Fprintf(a.Env.Stderr, "%s\n", human.Sanitize(fmt.Sprintf(format, args...)))
	}
}

// Table aligns columns that are separated by tabs and prints them on stdout when it is
// flushed.
func (a *App) Table() *tabwriter.Writer { return tabwriter.NewWriter(a.Env.Stdout, 0, 4, 2, ' ', 0) }

// ShowList prints a list: with --json as one document, else as a table with the columns of
// header, which are separated by spaces, and with a row of cells for each item.
func ShowList[T any](a *App, list []T, header string, row func(T) []string) error {
	if a.Flags.JSON {
		return a.JSON(list)
	}
	w := a.Table()
	fmt.Fprintln(w, strings.Join(strings.Fields(header), "\t"))
	for _, item := range list {
		fmt.Fprintln(w, strings.Join(row(item), "\t"))
	}
	return w.Flush()
}

// Each works on each of a command's arguments in turn, notes what came of it, and prints the
// results with --json. list is the command that lists what the arguments can name.
func Each[T any](ctx context.Context, a *App, names []string, list string, work func(ctx context.Context, name string) (T, error), note func(T) string) error {
	done := []T{}
	for _, name := range names {
		v, err := work(ctx, name)
		if err != nil {
			return Missing(err, list)
		}
		done = append(done, v)
		if !a.Flags.JSON {
			a.Note("%s", note(v))
		}
	}
	if a.Flags.JSON {
		return a.JSON(done)
	}
	return nil
}

// ShowOne prints one thing: with --json as a document, else as the rows that rows gives, each a
// name and a value. A row without a value is left out.
func ShowOne(a *App, v any, rows func(row func(name, value string))) error {
	if a.Flags.JSON {
		return a.JSON(v)
	}
	w := a.Table()
	rows(func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, human.Sanitize(value))
		}
	})
	return w.Flush()
}

// MaxCaptured bounds the output that --json collects, in bytes.
const MaxCaptured = 64 << 20

// ReadInput reads an argument's file, or stdin for "-", up to a bound.
func (a *App) ReadInput(name string) ([]byte, error) {
	r := a.Env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "read the input: %w", err)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "read the input %s: %w", name, err)
	case len(b) > maxInput:
		return nil, api.Errorf(api.KindInvalid, "the input %s has more than %d bytes", name, maxInput)
	}
	return b, nil
}

// ReadArgument returns the text of an argument, or of stdin when it is "-", without spaces
// around it.
func (a *App) ReadArgument(text string) (string, error) {
	if text == "-" {
		b, err := a.ReadInput("-")
		if err != nil {
			return "", err
		}
		text = string(b)
	}
	return strings.TrimSpace(text), nil
}

// maxInput bounds what is read whole from a file or stdin, in bytes.
const maxInput = 2 << 20

// ReadJSON reads one JSON document strictly.
func (a *App) ReadJSON(name string, out any) error {
	b, err := a.ReadInput(name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return api.Errorf(api.KindInvalid, "%s is not as expected: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.KindInvalid, "%s has more than one JSON document", name)
	}
	return nil
}
