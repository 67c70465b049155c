package admin

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// ModelCommand is "hortus model".
type ModelCommand struct {
	Catalogue catalogueCmd `cmd:"" help:"List what the built-in model (offline) does, with an example request for each entry."`
}

type catalogueCmd struct {
	Words []string `arg:"" optional:"" name:"word" help:"List the entries that contain all of these words."`
}

func (*catalogueCmd) OnlyHere() string { return "hortus model catalogue" }

// Run lists the catalogue of the model in this binary; no daemon is needed.
func (c *catalogueCmd) Run(a *app.App) error {
	if a.Env.Catalogue == nil {
		return api.Errorf(api.KindUnsupported, "this binary has no built-in model")
	}
	all, err := a.Env.Catalogue()
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(slices.Clone(all), func(e api.CatalogueEntry) bool { return !c.has(e) })
	if len(found) == 0 {
		return api.Errorf(api.KindNotFound, "no entry of the catalogue contains %.200q", strings.Join(c.Words, " ")).
			WithHint("hortus model catalogue lists all %d entries. For anything else choose another model: --model anthropic or --model openai.", len(all))
	}
	if a.Flags.JSON {
		return a.JSON(found)
	}
	if err := showCatalogue(a.Env.Stdout, found); err != nil {
		return api.Errorf(api.KindInternal, "write the answer: %w", err)
	}
	a.Note("")
	a.Note("%d of %d entries. Numbers, texts and names in an example can differ; programs are in Python", len(found), len(all))
	a.Note("unless the request names JavaScript. For anything else: --model anthropic or --model openai.")
	return nil
}

// has reports whether an entry contains all words.
func (c *catalogueCmd) has(e api.CatalogueEntry) bool {
	text := strings.ToLower(e.Name + " " + e.Does + " " + e.Example)
	return !slices.ContainsFunc(c.Words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
}

// showCatalogue prints a table for each way in which entries are requested.
func showCatalogue(out io.Writer, entries []api.CatalogueEntry) error {
	began := false
	for _, part := range []struct {
		kinds   []api.CatalogueKind
		command string
	}{
		{[]api.CatalogueKind{api.CatalogueProgram, api.CatalogueGiven}, "hortus run '...'"},
		{[]api.CatalogueKind{api.CatalogueRepository}, "hortus task --repo . '...'"},
	} {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		rows := 0
		for _, e := range entries {
			if !slices.Contains(part.kinds, e.Kind) {
				continue
			}
			if rows++; rows == 1 {
				if began {
					fmt.Fprintln(w)
				}
				began = true
				fmt.Fprintf(w, "%s\tDOES\n", part.command)
			}
			does := e.Does
			if len(e.Languages) == 1 {
				does += " (" + string(e.Languages[0]) + " only)"
			}
			fmt.Fprintf(w, "%s\t%s\n", human.Sanitize(e.Example), human.Sanitize(does))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
