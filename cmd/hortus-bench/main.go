//go:build linux

// Hortus-bench measures this host: it opens a daemon of its own in this process, takes the figures that
// docs/benchmarks.md explains, and prints them as they are complete. Under the names of the guest's
// programs, and of package load, it is those, as hortus is.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/load"
	"hortus.dev/cmd/hortus-bench/measure"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/sudo"
	"hortus.dev/internal/platform/privilege"
	"hortus.dev/internal/platform/service"
)

// command is the command line.
type command struct {
	Measure  []string `arg:"" optional:"" help:"Benchmarks to run: ${measurements} (default: all but density, which fills the memory of the host)."`
	Backend  []string `placeholder:"NAME" help:"Backends to measure (default: all that can start here)."`
	Only     []string `placeholder:"NAME" help:"Comma-separated list of benchmarks to run."`
	MB       []int    `name:"mb" placeholder:"MB" help:"For save, fork and density: MB that a process in the sandbox holds (default 10,100,1000)."`
	Children []int    `placeholder:"N" help:"For fork: numbers of children (default 1,5,20, and 100 if more than 100 MB are held)."`
	N        int      `short:"n" default:"200" help:"Number of samples of a round trip (default ${default}). Other benchmarks scale: create n/4, save, fork and warm template n/8, burst n/2 at once, growth 5n in sequence, density n children, files and cache n/40 rounds."`
	NPM      string   `name:"npm" placeholder:"DIR" help:"For api: directory with the npm package e2b installed."`
	DataDir  string   `placeholder:"DIR" help:"Data directory of the daemon that is measured (default: that of hortus with -bench behind its name)."`
	Config   string   `placeholder:"FILE" help:"Configuration file of the daemon (default: that of hortus)."`
	JSON     bool     `help:"Print the rows as JSON."`
	Quiet    bool     `short:"q" help:"Show no progress."`
	Verbose  bool     `short:"v" help:"Show the log of the daemon."`
}

func main() {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Become(guest.Main))
	case birth.Argv0:
		os.Exit(guest.Main())
	case sudo.Argv0:
		os.Exit(sudo.Main())
	case load.Argv0:
		os.Exit(load.Main())
	}
	ctx, stop := service.UntilSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns an exit code: 2 for a command line that cannot be used.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &command{}
	req, shown, err := c.parse(args, stdout, stderr)
	if shown {
		return 0
	}
	if err == nil {
		err = c.measure(ctx, req, stdout, stderr)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "hortus-bench: %s\n", human.Sanitize(err.Error()))
	if hint := api.HintOf(err); hint != "" {
		fmt.Fprintf(stderr, "  next: %s\n", human.Sanitize(hint))
	}
	return api.KindOf(err).ExitCode()
}

// parse reads the command line. shown is true if it requested the usage, which was printed.
func (c *command) parse(args []string, stdout, stderr io.Writer) (req measure.Request, shown bool, err error) {
	parser, err := kong.New(c, kong.Name("hortus-bench"), kong.Writers(stdout, stderr), kong.Exit(func(int) { shown = true }),
		kong.Description("Measure a daemon of this host, compared with a floor of the host and with other programs."),
		kong.Vars{"measurements": strings.Join(measure.Measurements(), ", ")}, kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}))
	if err != nil {
		return req, false, api.Errorf(api.KindInternal, "the command line's grammar: %w", err)
	}
	if _, err := parser.Parse(args); err != nil && !shown {
		return req, false, api.Errorf(api.KindInvalid, "%w", err).WithHint("hortus-bench --help lists the flags")
	}
	req = measure.Request{Backends: c.Backend, Only: append(c.Measure, c.Only...), N: c.N, HeldMB: c.MB, Children: c.Children}
	return req, shown, req.Check()
}

// measure opens a daemon, measures it and closes it.
func (c *command) measure(ctx context.Context, req measure.Request, stdout, stderr io.Writer) error {
	cfg, err := daemon.Settings(c.Config, map[string]*string{"data-dir": &c.DataDir})
	if err != nil {
		return err
	}
	if c.DataDir == "" {
		cfg.DataDir += "-bench"
	}
	if c.Verbose {
		cfg.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	if err := privilege.Drop(); err != nil { // as a daemon does; it works with them too
		fmt.Fprintf(stderr, "hortus-bench: privileges could not be dropped: %v\n", err)
	}
	syscall.Umask(0o022) // as a daemon does: it is that of files that sandboxes see
	b, err := measure.Open(ctx, measure.Config{Daemon: cfg, NPM: c.NPM})
	if err != nil {
		return err
	}
	rows := []figure.Row{}
	show := newTable(stdout, stderr, c.Quiet)
	err = b.Run(ctx, req, func(r figure.Row) {
		rows = append(rows, r)
		if !c.JSON {
			show.row(r)
		}
	}, show.step)
	show.erase()
	if err := errors.Join(err, b.Close(ctx)); err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(rows)
	}
	return nil
}
