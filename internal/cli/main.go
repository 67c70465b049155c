package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/admin"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/completion"
	"hortus.dev/internal/cli/contexts"
	"hortus.dev/internal/cli/document"
	"hortus.dev/internal/cli/egress"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/lesson"
	"hortus.dev/internal/cli/mcp"
	"hortus.dev/internal/cli/plan"
	"hortus.dev/internal/cli/relay"
	"hortus.dev/internal/cli/sandbox"
	"hortus.dev/internal/cli/secret"
	"hortus.dev/internal/cli/session"
	"hortus.dev/internal/cli/task"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/cli/workspace"
)

// grammar is the whole command line.
type grammar struct {
	globals

	Run        task.RunCommand         `cmd:"" help:"Write, run and verify a program for a request."`
	Code       sandbox.CodeCommand     `cmd:"" help:"Run code in a new sandbox and destroy the sandbox afterwards."`
	Role       task.RoleCommand        `cmd:"" help:"Run one role of hortus run alone: JSON in, JSON out."`
	Sandbox    sandbox.Command         `cmd:"" help:"Create and use sandboxes."`
	Egress     egress.Command          `cmd:"" help:"Show and change what sandboxes may connect to."`
	Secret     secret.Command          `cmd:"" help:"Set and list secrets, which requests of sandboxes are sent with."`
	Snapshot   sandbox.SnapshotCommand `cmd:"" help:"List, show and remove snapshots."`
	Template   sandbox.TemplateCommand `cmd:"" help:"Create, list, show and remove templates."`
	Workspace  workspace.Command       `cmd:"" help:"Create and use workspaces: files that outlive sandboxes."`
	Ps         psCmd                   `cmd:"" help:"List running sandboxes and tasks."`
	Task       task.Command            `cmd:"" help:"Run an agent on a repository; inspect, apply, deliver and replay tasks."`
	Plan       plan.Command            `cmd:"" help:"Divide a request into items that agents work on side by side, and merge their results."`
	Session    session.Command         `cmd:"" help:"Talk to an agent in a conversation that keeps its files."`
	Repo       task.RepoCommand        `cmd:"" help:"Connect repositories under names, keep them current, and prepare them for tasks."`
	Document   document.Command        `cmd:"" help:"Keep documents for tasks: requirements, constraints, decisions, patterns of code."`
	Lesson     lesson.Command          `cmd:"" help:"List and remove lessons: what fixed failures of past tasks, for the next ones."`
	MCP        mcp.Command             `cmd:"" help:"Serve sandboxes and tasks to coding agents over the Model Context Protocol (MCP)."`
	Relay      relay.Command           `cmd:"" help:"Give sandboxes to services that host an agent elsewhere."`
	Stats      task.StatsCommand       `cmd:"" help:"Show statistics of past runs: success rate, duration, failures, cost."`
	Doctor     admin.DoctorCommand     `cmd:"" help:"Show the capabilities of this host, and why one is missing."`
	Model      admin.ModelCommand      `cmd:"" help:"Show what the built-in model can do."`
	Df         admin.DiskUsageCommand  `cmd:"" help:"Show the disk usage of the data directory."`
	Gc         admin.CollectCommand    `cmd:"" help:"Remove unused data from the data directory."`
	Settings   admin.ConfigCommand     `cmd:"" name:"config" help:"Show the settings and the origin of each value."`
	Uninstall  admin.UninstallCommand  `cmd:"" help:"Remove everything that Hortus created on this machine."`
	Completion completion.Command      `cmd:"" help:"Print the completion script for a shell."`
	Version    versionCmd              `cmd:"" help:"Show the version."`
	Serve      admin.ServeCommand      `cmd:"" help:"Serve the HTTP API for clients with an API key."`
	UI         admin.ConsoleCommand    `cmd:"" name:"ui" help:"Open the web console of this machine's daemon, signed in."`
	Key        admin.KeyCommand        `cmd:"" help:"Create, list and revoke API keys."`
	Context    admin.ContextCommand    `cmd:"" help:"Manage named daemons of other machines and choose the default one."`
	Gvisor     admin.GVisorCommand     `cmd:"" help:"Build gVisor for a binary that does not embed it."`
	Wasm       admin.WasmCommand       `cmd:"" help:"Install interpreters for wasm sandboxes."`
	MicroVM    admin.MicroVMCommand    `cmd:"" name:"microvm" help:"Install the kernel of microvm sandboxes."`
	Store      admin.StoreCommand      `cmd:"" help:"Copy the rows of the data directory to a Postgres database."`
	Fleet      admin.FleetCommand      `cmd:"" help:"Manage the nodes that share a database."`
	Daemon     admin.DaemonCommand     `cmd:"" help:"Show or stop the daemon."`
}

// globals are the flags of every command.
type globals struct {
	app.Flags

	ShowVersion versionFlag `name:"version" group:"global" help:"Show the version."`
}

// Main runs one command and gives its exit code; docs/cli.md lists them.
func Main(ctx context.Context, args []string, env app.Env, connect app.Connect) int {
	a := app.New(env, connect)
	defer a.Disconnect()
	err := parseAndRun(ctx, a, args)
	var quiet app.ExitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &quiet):
		return int(quiet)
	}
	a.ReportError(err)
	var f *app.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return api.KindOf(err).ExitCode()
}

// helpShown unwinds the parser after it printed its help.
type helpShown struct{ code int }

func parseAndRun(ctx context.Context, a *app.App, args []string) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case helpShown:
			err = nil
			if r.code != 0 {
				err = app.ExitCode(r.code)
			}
		default:
			panic(r)
		}
	}()
	if len(args) > 0 && args[0] == completion.Name {
		all, err := newParser(a, nil)
		if err != nil {
			return err
		}
		return completion.Complete(ctx, a, all.Model, args[1:])
	}
	args = expandHelp(args)
	parser, err := newParser(a, args)
	if err != nil {
		return err
	}
	k, err := parser.Parse(args)
	if err != nil { // an error may suggest any command
		if parser, err = newParser(a, nil); err != nil {
			return err
		}
		k, err = parser.Parse(args)
	}
	if a.ConfigErr != nil && (err != nil || !ignoresConfig(k)) {
		return a.ConfigErr
	}
	if err != nil {
		a.Flags.JSON = a.Flags.JSON || wantsJSON(a, args)
		var e *api.Error
		if errors.As(err, &e) {
			return &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "%s", err).WithHint("%s", e.Hint)}
		}
		return &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "%s", usage(err)).WithHint("%s", usageHint(err))}
	}
	a.Parsed = k
	a.StartLog()
	if err := checkHere(a); err != nil {
		return err
	}
	if err := k.BindToProvider(func() (*client.Client, error) { return a.Client(ctx) }); err != nil {
		return api.Errorf(api.KindInternal, "the command line's grammar: %w", err)
	}
	return k.Run(app.Context{Context: ctx}, a)
}

// newParser returns a parser with the commands whose names are in args, or with all commands if
// there are none. To build the whole grammar takes half of the time of a short command.
func newParser(a *app.App, args []string) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name("hortus"),
		kong.Description(description),
		kong.ExplicitGroups([]kong.Group{{Key: "global", Title: "Flags of every command:"}}),
		kong.Bind(a),
		kong.Writers(a.Env.Stdout, a.Env.Stderr),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: false, WrapUpperBound: 100}),
		kong.Resolvers(kong.ResolverFunc(a.Resolve)),
	}
	line := &grammar{}
	a.Flags = &line.Flags
	var root any = line
	if named := line.named(args); len(named) > 0 {
		root, options = &line.globals, append(options, named...)
	}
	parser, err := kong.New(root, options...)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the command line's grammar: %w", err)
	}
	return parser, forgetEmpty(parser)
}

// named returns the commands whose names are in args as options of a parser.
func (g *grammar) named(args []string) (out []kong.Option) {
	v := reflect.ValueOf(g).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if _, ok := f.Tag.Lookup("cmd"); !ok {
			continue
		}
		if name := cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)); slices.Contains(args, name) {
			out = append(out, kong.DynamicCommand(name, f.Tag.Get("help"), "", v.Field(i).Addr().Interface()))
		}
	}
	return out
}

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

func (*versionCmd) WithoutConfig() {}

// description begins the help of hortus itself.
const description = `Run untrusted, AI-generated code in isolated sandboxes, repair it when it fails, and return verified results.

Examples:

    hortus run "print the first 20 prime numbers"
    hortus task --repo . "Fix the failing test"
    hortus sandbox run -- python3 -c 'print(6 * 7)'
    hortus sandbox create --ttl 10m
    hortus sandbox shell last
    hortus doctor`

// expandHelp turns what people type first into what the grammar knows: hortus alone and hortus
// help COMMAND show help.
func expandHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	}
	return args
}

// versionFlag shows the version and ends the command.
type versionFlag bool

// BeforeReset is called by the parser where the flag is given.
func (versionFlag) BeforeReset(a *app.App) error {
	if err := new(versionCmd).Run(a); err != nil {
		return err
	}
	panic(helpShown{})
}

type psCmd struct{}

// Run lists what runs: sandboxes, then tasks.
func (*psCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	sandboxes, err := cl.Sandboxes.List(ctx, false)
	if err != nil {
		return err
	}
	all, err := cl.Tasks.List(ctx, maxScanned)
	if err != nil {
		return err
	}
	tasks := []api.Task{}
	for _, t := range all {
		if t.State != api.TaskDone {
			tasks = append(tasks, t)
		}
	}
	if a.Flags.JSON {
		if sandboxes == nil {
			sandboxes = []api.Sandbox{}
		}
		return a.JSON(struct {
			Sandboxes []api.Sandbox `json:"sandboxes"`
			Tasks     []api.Task    `json:"tasks"`
		}{sandboxes, tasks})
	}
	fleet := slices.ContainsFunc(sandboxes, func(b api.Sandbox) bool { return b.Node != "" }) || slices.ContainsFunc(tasks, func(t api.Task) bool { return t.Node != "" })
	column := func(node string) string { // of nodes, in a fleet
		if !fleet {
			return ""
		}
		return cmp.Or(human.Sanitize(node), "-") + "\t"
	}
	w := a.Table()
	fmt.Fprintf(w, "KIND\tID\tSTATE\tAGE\t%sWHAT\n", column("NODE"))
	for _, b := range sandboxes {
		fmt.Fprintf(w, "sandbox\t%s\t%s\t%s\t%s%s, %s\n", human.Sanitize(string(b.ID)), human.Sanitize(string(b.State)), human.Duration(time.Since(b.CreatedAt)),
			column(b.Node), human.Sanitize(b.Isolation), human.Truncate(b.Template, 24))
	}
	for _, t := range tasks {
		fmt.Fprintf(w, "task\t%s\t%s\t%s\t%s%s\n", human.Sanitize(string(t.ID)), view.StateOf(t), human.Duration(time.Since(t.CreatedAt)), column(t.Node), human.Truncate(view.RequestOf(t), 60))
	}
	return w.Flush()
}

// maxScanned is among how many of the newest tasks those that run are looked for.
const maxScanned = 1000

type versionCmd struct{}

// Run shows the version of this binary.
func (*versionCmd) Run(a *app.App) error {
	v := a.Env.Version()
	if a.Flags.JSON {
		return a.JSON(v)
	}
	guest := "serves as the guest itself"
	if v.GuestEmbedded {
		guest = "small guest embedded"
	}
	gvisor := "no gVisor"
	if v.GVisor != "" {
		gvisor = "gVisor " + v.GVisor
	}
	_, err := fmt.Fprintf(a.Env.Stdout, "hortus %s (build %s, %s, %s/%s, %s, %s)\n", v.Version, v.Build, v.Go, v.OS, v.Arch, guest, gvisor)
	return err
}

// ignoresConfig reports whether a command works whatever the configuration says.
func ignoresConfig(k *kong.Context) bool {
	if k == nil || k.Selected() == nil || !k.Selected().Target.CanAddr() {
		return false
	}
	_, ok := k.Selected().Target.Addr().Interface().(interface{ WithoutConfig() })
	return ok
}

// local marks the commands that are about this machine, whatever daemon others speak
// to. The text names the command.
type local interface{ OnlyHere() string }

// checkHere refuses --host for a command that could only ignore it. A context that is
// in use is no such word: it is about the commands that it can be about.
func checkHere(a *app.App) error {
	node := a.Parsed.Selected()
	if a.Flags.Host == "" || a.Flags.Host == contexts.Local || node == nil || !node.Target.CanAddr() {
		return nil
	}
	if c, ok := node.Target.Addr().Interface().(local); ok {
		return &app.Failure{Code: 2, Err: api.Errorf(api.KindInvalid, "%s works on this machine only; --host is not supported", c.OnlyHere()).
			WithHint("run it on that machine; or omit --host and unset HORTUS_HOST")}

	}
	return nil
}

// usageHint is what to do about a command line that makes no sense.
func usageHint(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		left, missing := strings.HasPrefix(err.Error(), "unexpected argument"), strings.HasPrefix(err.Error(), "expected")
		switch name := parse.Context.Selected().Path(); {
		case strings.HasSuffix(name, "task start") && (left || missing):
			return `put the request into quotes: hortus task --repo . "Fix the failing test"`
		case strings.HasSuffix(name, "task apply") && left:
			return "a branch is named with an equals sign: --branch=NAME"
		}
	}
	if got := looksLikeFlag.FindStringSubmatch(err.Error()); got != nil {
		return got[1] + "=" + got[2]
	}
	command := "hortus"
	if parse != nil && parse.Context != nil {
		for _, p := range parse.Context.Path {
			if p.Command != nil {
				command = p.Command.FullPath()
			}
		}
	}
	if strings.HasPrefix(err.Error(), "unknown flag") && (command == "hortus sandbox run" || command == "hortus sandbox exec") {
		return "flags of the command inside go behind it, or behind --: hortus sandbox run -- ls --all. A sandbox of run is always removed"
	}
	return command + " --help"
}

// Errors of the parser in its own words.
var (
	looksLikeFlag = regexp.MustCompile(`^(--[a-z-]+): expected \S+ value but got "(.+)" \(.*\); perhaps try `)
	noValue       = regexp.MustCompile(`^(--[a-z-]+): expected \S+ value but got "EOL" `)
	notNumber     = regexp.MustCompile(`expected (?:an int|a float|a valid \d+ bit u?int) but got ("(?:[^"\\]|\\.)*")(?: \(string\))?`)
)

// usage says what is wrong with a command line.
func usage(err error) string {
	text := err.Error()
	if got := noValue.FindStringSubmatch(text); got != nil {
		return got[1] + " has no value"
	}
	if got := looksLikeFlag.FindStringSubmatch(text); got != nil {
		return got[1] + " has no value: " + strconv.Quote(got[2]) + " would be a flag"
	}
	return strings.Replace(notNumber.ReplaceAllString(text, "$1 is not a number"), `,"" but got `, ` but got `, 1)
}

// wantsJSON reports whether a command line that cannot be parsed asks for a document.
func wantsJSON(a *app.App, args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	set, _ := strconv.ParseBool(a.Getenv("HORTUS_JSON"))
	return set || slices.Contains(args, "--json")
}
