package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/platform/config"
)

// Env is the process that the commands run in.
type Env struct {
	// Stdin, Stdout and Stderr are the process's own. Those that are *os.File
	// and lead to a terminal are treated as one.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// UID is the user's number; it decides where files are by default.
	UID int
	// Version describes this binary.
	Version func() api.Version
	// Catalogue lists what the built-in model does. Nil where there is none.
	Catalogue func() ([]api.CatalogueEntry, error)
	// Inspect says what lies in a data directory, ours and not; Remove removes
	// what is ours. Nil where no daemon can run.
	Inspect func(dir string) (ours, foreign []string, err error)
	Remove  func(ctx context.Context, dir string) error
	// Serve serves a data directory until it is told to end. Nil where no daemon can
	// run.
	Serve func(ctx context.Context, opt ServeOptions) error
	// BuildGVisor gives the builder of gVisor for a directory. Nil where no daemon can
	// run. GoRun says whether go run made this program; nil is never.
	BuildGVisor func(dir string) (GVisor, error)
	GoRun       func() bool
	// Environ is the environment of the programs that are started here; nil is
	// this process's own.
	Environ []string
	// Signals delivers the process's signals instead of os/signal; for tests.
	Signals <-chan os.Signal
	// Exit ends the process at once, at a second Ctrl-C.
	Exit func(code int)
}

// ConnectOptions say which daemon is wanted.
type ConnectOptions struct {
	DataDir string
	// ConfigFile is the configuration file that was named, if one was, for a
	// daemon that is started.
	ConfigFile string
	// Settings are those of the daemon that were named.
	Settings api.DaemonSettings
	// MustRun asks for a daemon that runs already: none is started.
	MustRun bool
	// Models asks for a daemon with the keys of models that are set here, if any.
	Models bool
	// Forges asks for one with the tokens of forges that are set here, if any;
	// TokenVariables are variables that the configuration names for them.
	Forges         bool
	TokenVariables []string
}

// Connect finds the daemon of a data directory.
type Connect func(ctx context.Context, opt ConnectOptions) (*client.Client, error)

// globals are the flags of every command.
type globals struct {
	DataDir  string `name:"data-dir" env:"HORTUS_DATA_DIR" complete:"dirs" placeholder:"DIR" group:"global" help:"Where state lives (default: /var/lib/hortus for root, ~/.local/share/hortus for others)."`
	Config   string `name:"config" env:"HORTUS_CONFIG" complete:"files" placeholder:"FILE" group:"global" help:"Configuration file; hortus config path shows which is read."`
	LogLevel level  `name:"log-level" env:"HORTUS_LOG_LEVEL" placeholder:"LEVEL" group:"global" help:"What is logged, here on stderr and by the daemon in its log: debug, info, warn or error."`
	JSON     bool   `name:"json" env:"HORTUS_JSON" group:"global" help:"Answer with one JSON document on stdout."`
	Quiet    bool   `short:"q" env:"HORTUS_QUIET" group:"global" help:"No progress, no verdict: only output and errors."`
	Host     string `name:"host" env:"HORTUS_HOST" placeholder:"URL" group:"global" help:"Speak to the daemon that serves there, with the key of HORTUS_API_KEY or of a context; local for this machine's own."`
}

// grammar is the whole command line.
type grammar struct {
	globals

	ShowVersion versionFlag `name:"version" group:"global" help:"Show the version."`

	Run        runCmd        `cmd:"" help:"Turn a sentence into a program that really ran."`
	Execute    executeCmd    `cmd:"" help:"Run a program from a file of JSON once, without any model."`
	Plan       planCmd       `cmd:"" help:"Ask the Planner alone: a sentence in, a plan out."`
	Code       codeCmd       `cmd:"" help:"Ask the Coder alone: a plan in, a program out."`
	Debug      debugCmd      `cmd:"" help:"Ask the Debugger alone: a failed attempt in, a diagnosis out."`
	Sandbox    sandboxCmd    `cmd:"" help:"Make and use sandboxes."`
	Snapshot   snapshotCmd   `cmd:"" help:"Look at saved sandboxes, or remove them."`
	Template   templateCmd   `cmd:"" help:"Make and look at what sandboxes start from."`
	Ps         psCmd         `cmd:"" help:"List the sandboxes and tasks that run."`
	Task       taskCmd       `cmd:"" help:"Work on a repository; look at earlier requests and run them again."`
	Stats      statsCmd      `cmd:"" help:"Say what earlier requests came to: success, time, failures, cost."`
	Doctor     doctorCmd     `cmd:"" help:"Show what this host can do, and why not where it cannot."`
	Model      modelCmd      `cmd:"" help:"Show what the built-in model can do."`
	Bench      benchCmd      `cmd:"" help:"Measure this host."`
	Df         dfCmd         `cmd:"" help:"Show what the data directory holds."`
	Gc         gcCmd         `cmd:"" help:"Remove what nothing in the data directory refers to."`
	Settings   configCmd     `cmd:"" name:"config" help:"Show what Hortus is set to, and where each value comes from."`
	Uninstall  uninstallCmd  `cmd:"" help:"Remove everything that Hortus made on this machine."`
	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Version    versionCmd    `cmd:"" help:"Show the version."`
	Serve      serveCmd      `cmd:"" help:"Serve this machine's sandboxes over HTTP, to whoever has a key."`
	Key        keyCmd        `cmd:"" help:"Make, list and revoke API keys."`
	Context    contextCmd    `cmd:"" help:"Name daemons of other machines, and choose the one that commands speak to."`
	Gvisor     gvisorCmd     `cmd:"" help:"Build gVisor for a hortus that was built without it."`
	Daemon     daemonCmd     `cmd:"" help:"Look at the background process, or stop it."`
}

// app is one run of one command.
type app struct {
	env     Env
	opt     *globals
	connect Connect
	conn    *client.Client
	log     *slog.Logger

	conf    *config.Config
	confErr error
	parsed  *kong.Context
	// models says that the daemon must have the keys of models that are set here.
	models bool
	// forges says the same of the tokens of forges.
	forges bool
}

// newApp makes the run of a command, before its flags are parsed.
func newApp(env Env, connect Connect) *app {
	return &app{env: env, opt: &globals{}, connect: connect, log: slog.New(slog.DiscardHandler)}
}

// disconnect ends the connection to the daemon, if there is one.
func (a *app) disconnect() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// exitCode ends a command with a code and without a message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// failure is an error that ends a command with a code of its own.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Main runs one command and gives its exit code; docs/cli.md lists them.
func Main(ctx context.Context, args []string, env Env, connect Connect) int {
	a := newApp(env, connect)
	defer a.disconnect()
	err := parseAndRun(ctx, a, args)
	var quiet exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &quiet):
		return int(quiet)
	}
	a.report(err)
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return api.KindOf(err).ExitCode()
}

// helpShown unwinds the parser after it printed its help.
type helpShown struct{ code int }

func parseAndRun(ctx context.Context, a *app, args []string) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case helpShown:
			err = nil
			if r.code != 0 {
				err = exitCode(r.code)
			}
		default:
			panic(r)
		}
	}()
	var line grammar
	a.opt = &line.globals
	parser, err := kong.New(&line,
		kong.Name("hortus"),
		kong.Description(description),
		kong.ExplicitGroups([]kong.Group{{Key: "global", Title: "Flags of every command:"}}),
		kong.Bind(a),
		kong.Writers(a.env.Stdout, a.env.Stderr),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: false, WrapUpperBound: 100}),
		kong.Resolvers(kong.ResolverFunc(a.resolve)),
	)
	if err != nil {
		return api.Errorf(api.KindInternal, "the command line's grammar: %w", err)
	}
	if err := forgetEmpty(parser); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == completeName {
		return complete(ctx, a, parser.Model, args[1:])
	}
	k, err := parser.Parse(asked(args))
	if a.confErr != nil && (err != nil || !ignoresConfig(k)) {
		return a.confErr
	}
	if err != nil {
		var e *api.Error
		if errors.As(err, &e) {
			return &failure{2, api.Errorf(api.KindInvalid, "%s", err).WithHint("%s", e.Hint)}
		}
		return &failure{2, api.Errorf(api.KindInvalid, "%s", err).WithHint("%s", usageHint(err))}
	}
	a.parsed = k
	a.startLog()
	if err := checkHere(a); err != nil {
		return err
	}
	return k.Run(runContext{ctx}, a)
}

// runContext carries the context through the parser, which binds by type.
type runContext struct{ context.Context }

// forgetEmpty makes a variable that is set to nothing mean the same as one that
// is not set, as everywhere else.
func forgetEmpty(parser *kong.Kong) error {
	return kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			f.Tag.Envs = slices.DeleteFunc(f.Tag.Envs, func(name string) bool {
				v, set := os.LookupEnv(name)
				return set && v == ""
			})
		}
		return next(nil)
	})
}

// client gives the connection to the daemon, which may start it.
func (a *app) client(ctx context.Context) (*client.Client, error) {
	if a.conn == nil {
		if r, is, err := a.far(); err != nil || is {
			if err == nil {
				a.conn, err = a.farClient(r)
			}
			return a.conn, err
		}
		opt, err := a.connectOptions()
		if err != nil {
			return nil, err
		}
		opt.Models = a.models
		if opt.Forges = a.forges; opt.Forges {
			hosts, err := a.conf.Forges()
			if err != nil {
				return nil, err
			}
			for _, h := range hosts {
				if h.TokenEnv != "" {
					opt.TokenVariables = append(opt.TokenVariables, h.TokenEnv)
				}
			}
		}
		began := time.Now()
		c, err := a.connect(ctx, opt)
		a.log.Debug("daemon", "dataDir", opt.DataDir, "took", time.Since(began), "error", err)
		if err != nil {
			return nil, err
		}
		a.conn = c
	}
	return a.conn, nil
}

// modelClient is client for a command that asks models.
func (a *app) modelClient(ctx context.Context, models ...string) (*client.Client, error) {
	a.models = slices.ContainsFunc(models, func(name string) bool {
		return name != "" && name != "offline" && !strings.HasPrefix(name, recordingPrefix)
	})
	return a.client(ctx)
}

// report prints an error for a person, and with --json as a document as well.
func (a *app) report(err error) {
	fmt.Fprintf(a.env.Stderr, "hortus: %s\n", clean(err.Error()))
	hint := api.HintOf(err)
	if hint != "" {
		fmt.Fprintf(a.env.Stderr, "  next: %s\n", clean(hint))
	}
	if a.opt.JSON {
		_ = a.json(map[string]api.Error{"error": {Kind: api.KindOf(err), Message: err.Error(), Hint: hint}})
	}
}

// json prints one document.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.env.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return api.Errorf(api.KindInternal, "write the answer: %w", err)
	}
	return nil
}

// note prints a line on stderr, unless silence is wanted.
func (a *app) note(format string, args ...any) {
	if !a.opt.Quiet {
		fmt.Fprintf(a.env.Stderr, "%s\n", clean(fmt.Sprintf(format, args...)))
	}
}

// readInput reads an argument's file, or stdin for "-", up to a bound.
func (a *app) readInput(name string) ([]byte, error) {
	r := a.env.Stdin
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

// maxInput bounds what is read whole from a file or stdin, in bytes.
const maxInput = 2 << 20

// readJSON reads one JSON document strictly.
func (a *app) readJSON(name string, out any) error {
	b, err := a.readInput(name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return api.Errorf(api.KindInvalid, "%s is not as expected: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.Errorf(api.KindInvalid, "%s holds more than one JSON document", name)
	}
	return nil
}
