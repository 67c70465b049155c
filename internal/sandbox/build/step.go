package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/storage/oci/users"
)

// guest is a client of a sandbox's guest.
type guest struct{ *envd.Client }

func newGuest(s Sandboxes, id api.SandboxID) guest {
	return guest{envd.NewClient(envd.ClientConfig{Dial: func(ctx context.Context) (net.Conn, error) { return s.Guest(ctx, id) }})}
}

// do carries out a step. out receives lines of its output.
func (m *machine) do(ctx context.Context, s Step, out func(string)) error {
	args, err := m.expand(ctx, s)
	if err != nil {
		return err
	}
	switch s.Op {
	case OpEnv:
		for i := 0; i+1 < len(args); i += 2 {
			m.defaults.Env[args[i]] = args[i+1]
		}
		return api.CheckEnv(m.defaults.Env)
	case OpArg:
		m.args[args[0]] = args[1]
	case OpShell:
		m.shell = args
	case OpEntrypoint:
		m.defaults.Entrypoint = m.command(s, args)
		m.defaults.Command = m.defaults.Entrypoint
	case OpCommand:
		m.defaults.Command = slices.Concat(m.defaults.Entrypoint, m.command(s, args))
	case OpUser:
		return m.setUser(ctx, args[0])
	case OpWorkdir:
		dir, err := m.path(ctx, args[0])
		if err != nil {
			return err
		}
		fresh, err := m.makeDir(ctx, dir)
		if err == nil {
			err = m.chown(ctx, m.user, fresh)
		}
		if err != nil {
			return err
		}
		m.defaults.Dir = dir
	case OpRun:
		return m.runStep(ctx, s, nil, out)
	case OpCopy:
		return m.copy(ctx, s, args)
	}
	return nil
}

// runStep carries out a RUN, with more variables.
func (m *machine) runStep(ctx context.Context, s Step, more map[string]string, out func(string)) error {
	user, err := m.identity(cmp.Or(s.User, m.user))
	if err != nil {
		return err
	}
	env := maps.Clone(m.args)
	maps.Copy(env, m.defaults.Env)
	maps.Copy(env, more)
	return m.run(ctx, api.ExecRequest{Args: m.command(s, s.Args), User: user, Dir: m.dir(), Env: env}, out)
}

// command is the command of a step.
func (m *machine) command(s Step, args []string) []string {
	if s.Exec {
		return args
	}
	return append(slices.Clone(m.shell), args[0])
}

// expand returns the arguments of a step with their variables replaced.
func (m *machine) expand(ctx context.Context, s Step) ([]string, error) {
	if !s.Expand {
		return s.Args, nil
	}
	lookup := m.lookup(ctx)
	out := make([]string, len(s.Args))
	for i, a := range s.Args {
		var err error
		if out[i], err = Expand(a, lookup); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lookup returns a function that returns the value of a variable.
func (m *machine) lookup(ctx context.Context) func(string) (string, error) {
	return func(name string) (string, error) {
		if v, ok := m.defaults.Env[name]; ok {
			return v, nil
		}
		if v, ok := m.args[name]; ok {
			return v, nil
		}
		// What the files below say, such as PATH.
		var value string
		err := m.run(ctx, api.ExecRequest{Args: []string{"printenv", name}, User: m.user, Dir: "/"}, func(line string) { value = line })
		if api.KindOf(err) == api.KindConflict { // it is not set
			return "", nil
		}
		return value, err
	}
}

// dir is the directory of the next step; empty is that of the sandbox.
func (m *machine) dir() string { return cmp.Or(m.defaults.Dir, m.work.req.Dir) }

// path makes a path of a step absolute.
func (m *machine) path(ctx context.Context, p string) (string, error) {
	if path.IsAbs(p) {
		return path.Clean(p), nil
	}
	dir := m.dir()
	if dir == "" {
		err := m.run(ctx, api.ExecRequest{Args: []string{"pwd"}, User: m.user}, func(line string) { dir = line })
		if err == nil && !path.IsAbs(dir) {
			err = api.Errorf(api.KindInternal, "pwd printed %.100q", dir)
		}
		if err != nil {
			return "", fmt.Errorf("read the directory of the sandbox: %w", err)
		}
	}
	return path.Join(dir, p), nil
}

// identity returns the user of the sandbox that a step names.
func (m *machine) identity(name string) (string, error) {
	given := name
	name, group, grouped := strings.Cut(name, ":")
	switch name {
	case "0":
		name = "root"
	case "1000":
		name = "user"
	}
	if !slices.Contains(m.row.Identities, name) || grouped && group != name && group != given[:len(given)-len(group)-1] {
		return "", api.Errorf(api.KindUnsupported, "user %.80q is not a user of this sandbox", given).
			WithHint("its users are %s; after USER NAME a user of /etc/passwd is one too", strings.Join(m.row.Identities, ", "))
	}
	return name, nil
}

// setUser makes a user the current one. If only the files of the sandbox say who that is, the
// next step needs a sandbox that starts with it.
func (m *machine) setUser(ctx context.Context, given string) error {
	user, err := m.identity(given)
	own := m.own()
	switch {
	case err == nil && (own == nil || own.Name != user):
		m.user, m.defaults.User, m.defaults.UserRecord = user, user, nil
		return nil
	case m.writer() != "root":
		return err
	}
	var files [2]string
	for i, name := range []string{"/etc/passwd", "/etc/group"} {
		in, _, err := m.guest.ReadFile(ctx, "root", name)
		if err != nil {
			return envd.APIError(err)
		}
		b, err := io.ReadAll(io.LimitReader(in, maxUsers))
		in.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		files[i] = string(b)
	}
	u, err := users.Find(given, files[0], files[1])
	if err == nil && u.UID == 0 {
		err = api.Errorf(api.KindUnsupported, "user %.80q is root by another name", given).WithHint("write USER root")
	}
	if err != nil {
		return err
	}
	m.user, m.defaults.User, m.defaults.UserRecord = u.Name, u.Name, &u
	return nil
}

// own is the user of the files that the sandbox was started with; nil if there is none.
func (m *machine) own() *api.UserRecord {
	if m.row.Defaults == nil {
		return nil
	}
	return m.row.Defaults.UserRecord
}

// unknown reports whether the sandbox was started without the current user, or with other groups of it.
func (m *machine) unknown() bool {
	return m.defaults.UserRecord != nil && !reflect.DeepEqual(m.defaults.UserRecord, m.own())
}

// maxUsers bounds what is read of /etc/passwd and /etc/group, in bytes.
const maxUsers = 1 << 20

// copy carries out a COPY.
func (m *machine) copy(ctx context.Context, s Step, args []string) error {
	owner := cmp.Or(s.User, m.user)
	if m.writer() != "root" { // all files belong to the one user
		owner = m.writer()
	}
	if !ownerName.MatchString(owner) {
		return api.Errorf(api.KindInvalid, "owner %.80q is not a user, or USER:GROUP", owner)
	}
	var err error
	files := s.Files
	if s.From != "" {
		if files, err = m.work.export(ctx, s.From, args[:len(args)-1]); err != nil {
			return err
		}
	}
	to := target{path: args[len(args)-1], owner: owner, mode: s.Mode, unpack: s.Unpack}
	u := &upload{}
	var sources []source
	if len(args) > 1 {
		if u, err = m.work.cfg.Files.open(m.work.account, files); err != nil {
			return err
		}
		defer u.data.Close()
		if sources, err = u.match(args[:len(args)-1]); err != nil {
			return err
		}
	}
	for _, h := range s.Here {
		if h.Expand {
			if h.Text, err = expand(h.Text, m.lookup(ctx), false); err != nil {
				return err
			}
		}
		sources = append(sources, source{path: h.Name, entries: []entry{{Path: h.Name, Mode: 0o644, here: &h.Text}}})
	}
	return m.copyFiles(ctx, u, sources, to)
}

// ownerName is an owner of files, as --chown has it.
var ownerName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// export makes an upload of files of a stage or template, and returns its name.
func (r *work) export(ctx context.Context, from string, sources []string) (_ string, err error) {
	o, err := r.from(ctx, from, len(r.req.Stages)) // keys has refused later stages
	if err != nil {
		return "", err
	}
	m, err := r.open(ctx, o, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	const archive = "/tmp/.hortus-copy.tar"
	args := []string{"tar", "-cf", archive, "-C", "/", "--"}
	for _, s := range sources {
		if strings.ContainsAny(s, "*?[") {
			return "", api.Errorf(api.KindUnsupported, "source %.100q: COPY --from takes no patterns", s)
		}
		args = append(args, "./"+strings.TrimPrefix(path.Clean("/"+s), "/"))
	}
	if err := m.run(ctx, api.ExecRequest{Args: args, User: m.writer(), Dir: "/"}, func(string) {}); err != nil {
		return "", fmt.Errorf("read files of %.80s: %w", from, err)
	}
	in, _, err := m.guest.ReadFile(ctx, m.writer(), archive)
	if err != nil {
		return "", envd.APIError(err)
	}
	defer in.Close()
	return r.cfg.Files.Put(ctx, "", in)
}

const (
	maxLine = 4 << 10 // of output, in bytes
	maxTail = 2 << 10 // of the output that is kept of a command
	maxLast = 300     // of it in the error of a command that failed: the log has it too
)

// explain adds to the failure of a command the connections of the sandbox that were denied since a time.
func (m *machine) explain(ctx context.Context, failure *api.Error, since time.Time) *api.Error {
	const most = 5 // hosts
	if m.work.cfg.Connections == nil {
		return failure
	}
	f := api.EgressFilter{Sandbox: m.row.ID, Result: api.EgressDenied, Since: since}
	list, _, err := m.work.cfg.Connections.EgressPage(ctx, f, api.PageRequest{Limit: 50})
	if err != nil {
		return failure // it is only a hint
	}
	var hosts, reasons []string
	for _, d := range list {
		host := d.Host
		if d.Port != 0 && d.Port != 80 && d.Port != 443 { // the ports of a rule without one
			host = net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
		}
		if d.Host == "" || slices.Contains(hosts, host) || len(hosts) == most {
			continue
		}
		hosts, reasons = append(hosts, host), append(reasons, fmt.Sprintf("%s (%s)", host, d.Reason))
	}
	if hosts == nil {
		return failure
	}
	return failure.WithHint("connections were denied: %s. To allow them: --egress %s, or a preset such as pip, npm or apt", strings.Join(reasons, ", "), strings.Join(hosts, " --egress "))
}

// run runs a command, which must succeed. out receives lines of its output. If ctx ends, the sandbox
// ends, and with it the command.
func (m *machine) run(ctx context.Context, req api.ExecRequest, out func(string)) error {
	began := time.Now()
	s, err := m.work.cfg.Sandboxes.StartExec(ctx, m.row.ID, req)
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { m.work.cfg.Sandboxes.Kill(context.WithoutCancel(ctx), m.row.ID) })
	defer stop()
	var tail, part []byte
	flush := func(all bool) {
		for {
			i := slices.Index(part, '\n')
			switch {
			case i >= 0 && i <= maxLine:
				out(strings.ToValidUTF8(strings.TrimSuffix(string(part[:i]), "\r"), "\uFFFD"))
				part = part[i+1:]
			case len(part) > maxLine:
				out(strings.ToValidUTF8(string(part[:maxLine]), "\uFFFD"))
				part = part[maxLine:]
			case all && len(part) > 0:
				out(strings.ToValidUTF8(string(part), "\uFFFD"))
				return
			default:
				return
			}
		}
	}
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return err
		}
		if ev.Data != nil {
			text := slices.Concat(ev.Data.Stdout, ev.Data.Stderr)
			part = append(part, text...)
			tail = append(tail, text...)
			tail = tail[max(0, len(tail)-maxTail):]
			flush(false)
		}
	}
	flush(true)
	if exit := s.Exec().Exit; exit.Code != 0 {
		how := fmt.Sprintf("exit code %d", exit.Code)
		if exit.Cause != "" {
			how += ", " + exit.Cause
		}
		text := strings.TrimSpace(strings.ToValidUTF8(string(tail), "\uFFFD"))
		last := text[max(0, len(text)-maxLast):]
		if _, rest, ok := strings.Cut(last, "\n"); ok && len(text) > maxLast {
			last = rest // whole lines
		}
		return m.explain(ctx, api.Errorf(api.KindConflict, "%s: %q", how, strings.ToValidUTF8(last, "")), began)
	}
	return nil
}

// readyTimeout is the maximum time from the start of the start command until the ready command succeeds.
const readyTimeout = 5 * time.Minute

// start runs the start command until it is ready.
func (m *machine) start(ctx context.Context) error {
	err := m.run(ctx, api.ExecRequest{
		Args: []string{"/bin/sh", "-c", startScript(m.work.req)}, User: m.user, Dir: m.dir(), Env: m.defaults.Env, TimeoutMS: readyTimeout.Milliseconds(),
	}, func(line string) { m.work.log(Line{-1, line, true}) })
	if err != nil {
		return fmt.Errorf("the start command %.200q did not get ready: %w", m.work.req.Start, err)
	}
	return nil
}

// startScript is a shell script that runs the start command in the background, and waits until the ready command
// succeeds; empty without a start command. If the start command fails before, it fails with its output.
func startScript(r Request) string {
	if r.Start == "" {
		return ""
	}
	shell := make([]string, len(r.Shell))
	for i, a := range r.Shell {
		shell[i] = quote(a)
	}
	with := strings.Join(shell, " ")
	return `log=$(mktemp /tmp/start.XXXXXX) || exit
setsid=$(command -v setsid)
$setsid ` + with + ` ` + quote(r.Start) + ` </dev/null >"$log" 2>&1 &
p=$!
until ` + with + ` ` + quote(cmp.Or(r.Ready, "true")) + ` >/dev/null 2>&1; do
	if [ "$p" ] && ! kill -0 "$p" 2>/dev/null; then
		wait "$p" || { c=$?; tail -n 20 "$log"; exit "$c"; }
		p=
	fi
	sleep 0.2
done`
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
