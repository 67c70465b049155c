package admin

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// BenchCommand is "hortus bench".
type BenchCommand struct {
	Measure  []string `arg:"" optional:"" help:"Benchmarks to run: exec, create, idle, burst, growth, save, fork, warm, rivals, runsc, files, api, egress, cache (default: all of these), and density, which fills the memory of the host."`
	Backend  []string `placeholder:"NAME" help:"Backends to measure (default: all that can start here)."`
	Only     []string `placeholder:"NAME" help:"Comma-separated list of benchmarks to run."`
	MB       []int    `name:"mb" placeholder:"MB" help:"For save, fork and density: MB that a process in the sandbox holds (default 10,100,1000)."`
	Children []int    `placeholder:"N" help:"For fork: numbers of children (default 1,5,20, and 100 if more than 100 MB are held)."`
	N        *int     `short:"n" placeholder:"N" help:"Number of samples of a round trip (default 200). Other benchmarks scale: create n/4, save, fork and warm template n/8, burst n/2 at once, growth 5n in sequence, density n children, files and cache n/40 rounds."`
}

// Run measures this host.
func (b *BenchCommand) Run(ctx app.Context, a *app.App) error {
	req := admin.BenchRequest{Backends: b.Backend, Only: slices.Concat(b.Measure, b.Only), HeldMB: b.MB, Children: b.Children}
	if b.N != nil {
		if req.N = *b.N; req.N < 1 || req.N > 100_000 {
			return api.Errorf(api.KindInvalid, "-n: %d is not between 1 and 100000", req.N)
		}
	}
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	rows := []admin.BenchRow{}
	show := newBenchProgress(a.Env, a.Flags.Quiet)
	err = c.Bench(ctx, req, func(r admin.BenchRow) {
		rows = append(rows, r)
		if !a.Flags.JSON {
			show.erase()
			if len(rows) == 1 {
				fmt.Fprintf(a.Env.Stdout, benchLine, "NAME", "BACKEND", "N", "P50", "P99", "COMPARED")
			}
			showRow(a, r)
		}
	}, show.step)
	show.erase()
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(rows)
	}
	return nil
}

// benchLine is a line of the table.
const benchLine = "%-48s %-10s %6s %12s %12s  %s\n"

func showRow(a *app.App, r admin.BenchRow) {
	p50, p99 := fmt.Sprintf("%.3f ms", r.P50MS), fmt.Sprintf("%.3f ms", r.P99MS)
	switch {
	case r.N == 0:
		p50, p99 = "-", "-"
	case r.Unit != "":
		p50, p99 = fmt.Sprintf("%.2f", r.Value), ""
	}
	compared := ""
	switch {
	case r.Baseline != "":
		compared = fmt.Sprintf("%.2fx of %s (%.3f ms)", r.Ratio, r.Baseline, r.BaselineP50MS)
	case strings.Contains(r.Unit, "per "): // a growth
		compared = fmt.Sprintf("%s; before %.2f, after %.2f", r.Unit, r.Before, r.After)
	case r.Unit != "":
		compared = r.Unit
	}
	if r.Note != "" {
		if compared != "" {
			compared += "; "
		}
		compared += r.Note
	}
	fmt.Fprintf(a.Env.Stdout, benchLine, human.Sanitize(r.Name), human.Sanitize(r.Backend), fmt.Sprint(r.N), p50, p99, human.Sanitize(compared))
}

// benchProgress tells on stderr what is being measured: one line that changes on
// a terminal, elsewhere a line for each measurement that begins.
type benchProgress struct {
	w     io.Writer // nil when nothing is to be shown
	tty   bool
	shown bool
}

func newBenchProgress(env app.Env, quiet bool) *benchProgress {
	p := &benchProgress{w: env.Stderr}
	if quiet {
		p.w = nil
	}
	f, ok := env.Stderr.(*os.File)
	p.tty = ok && term.IsTerminal(int(f.Fd())) && env.Getenv("TERM") != "dumb"
	return p
}

func (p *benchProgress) step(s admin.BenchProgress) {
	if p.w == nil || !p.tty && s.Done > 0 {
		return
	}
	what := "[bench] " + human.Sanitize(s.Measure)
	if s.Backend != "" {
		what += ", " + human.Sanitize(s.Backend)
	}
	if p.tty {
		fmt.Fprintf(p.w, "\r\x1b[K%s: %d of %d", what, s.Done, s.Of)
		p.shown = true
		return
	}
	fmt.Fprintf(p.w, "%s: %d samples\n", what, s.Of)
}

func (p *benchProgress) erase() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
