package app

import (
	"encoding/json"
	"fmt"
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
