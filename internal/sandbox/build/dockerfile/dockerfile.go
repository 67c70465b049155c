package dockerfile

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/build"
)

// MaxBytes is the maximum size of a Dockerfile.
const MaxBytes = 256 << 10

// Options of Parse.
type Options struct {
	// Args are the values of build arguments.
	Args map[string]string
	// Target is the stage to build; empty is the last one.
	Target string
	// Files names the upload that COPY reads.
	Files string
	// Secrets are the secrets of the account that the Dockerfile may use, by the id that it gives them.
	Secrets map[string]string
}

// File is what a Dockerfile says.
type File struct {
	// Stages end with the target.
	Stages []build.Stage
	// Notes are about instructions that change nothing.
	Notes []string
}

// Parse reads a Dockerfile.
func Parse(text string, o Options) (File, error) {
	list, err := split(text)
	if err != nil {
		return File{}, err
	}
	p := parser{Options: o, global: platform(), used: map[string]bool{}, mounted: map[string]bool{}}
	for _, i := range list {
		if err := p.add(i); err != nil {
			return File{}, err
		}
	}
	if len(p.out.Stages) == 0 {
		return File{}, api.Errorf(api.KindInvalid, "the Dockerfile has no FROM")
	}
	p.end()
	for _, name := range slices.Sorted(maps.Keys(o.Args)) {
		if !p.used[name] {
			return File{}, api.Errorf(api.KindInvalid, "the Dockerfile has no ARG %.80s", name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.Secrets)) {
		if !p.mounted[id] {
			return File{}, api.Errorf(api.KindInvalid, "no RUN of the Dockerfile uses the secret %.80q", id).WithHint("a step uses it with RUN --mount=type=secret,id=%s", id)
		}
	}
	if o.Target != "" {
		at := slices.IndexFunc(p.out.Stages, func(s build.Stage) bool { return strings.EqualFold(s.Name, o.Target) })
		if at < 0 {
			return File{}, api.Errorf(api.KindInvalid, "the Dockerfile has no stage %.80q", o.Target)
		}
		p.out.Stages = p.out.Stages[:at+1]
		p.out.Notes = p.out.Notes[:p.notes[at]]
	}
	return p.out, nil
}

type parser struct {
	Options
	out    File
	global map[string]string // arguments before the first FROM
	used   map[string]bool
	// mounted are the ids of secrets that steps use.
	mounted map[string]bool

	entrypoint, cmd *build.Step
	notes           []int // how many notes there are up to the end of each stage
}

// platform has the arguments that name the platform, which is that of this machine.
func platform() map[string]string {
	out := map[string]string{}
	for _, of := range []string{"BUILD", "TARGET"} {
		maps.Copy(out, map[string]string{of + "PLATFORM": "linux/" + runtime.GOARCH, of + "OS": "linux", of + "ARCH": runtime.GOARCH, of + "VARIANT": ""})
	}
	return out
}

// note says something about an instruction, at the beginning of the log.
func (p *parser) note(i instruction, format string, args ...any) {
	if text := fmt.Sprintf("line %d: %s ", i.line, i.name) + fmt.Sprintf(format, args...); !slices.Contains(p.out.Notes, text) {
		p.out.Notes = append(p.out.Notes, text)
	}
}

func (p *parser) add(i instruction) error {
	if i.name == "FROM" {
		return p.from(i)
	}
	if len(p.out.Stages) == 0 {
		if i.name != "ARG" {
			return i.errorf(api.KindInvalid, "only ARG may come before FROM")
		}
		return p.arg(i, nil)
	}
	stage := &p.out.Stages[len(p.out.Stages)-1]
	step := build.Step{Op: build.Op(i.name), Text: i.text(), Line: i.line}
	if i.rest == "" {
		return i.errorf(api.KindInvalid, "it has no argument")
	}
	var err error
	switch i.name {
	case "ARG":
		return p.arg(i, stage)
	case "ENV":
		step.Expand = true
		step.Args, err = pairs(i)
	case "WORKDIR", "USER":
		step.Expand, step.Args = true, []string{i.rest}
	case "RUN":
		err = p.run(i, &step)
	case "COPY", "ADD":
		err = p.copy(i, &step)
	case "SHELL":
		list, ok := jsonList(i.rest)
		if !ok {
			return i.errorf(api.KindInvalid, `write it as a JSON list, such as ["/bin/bash", "-c"]`)
		}
		step.Args = list
	case "CMD", "ENTRYPOINT":
		if step.Args, step.Exec = jsonList(i.rest); !step.Exec {
			step.Args = []string{i.rest}
		}
		if strings.Join(strings.Fields(i.rest), "") == "[]" { // none
			step.Args, step.Exec = nil, true
		}
		if i.name == "CMD" {
			p.cmd = &step
		} else {
			p.entrypoint = &step
		}
		return nil
	case "EXPOSE", "LABEL", "MAINTAINER", "VOLUME", "HEALTHCHECK", "STOPSIGNAL":
		p.note(i, "changes nothing in a sandbox")
		return nil
	default:
		return i.errorf(api.KindUnsupported, "this instruction is not supported").
			WithHint("supported are FROM, ARG, ENV, RUN, COPY, ADD, WORKDIR, USER, SHELL, CMD and ENTRYPOINT")
	}
	if err != nil {
		return err
	}
	if len(step.Args) == 0 || step.Args[0] == "" {
		return i.errorf(api.KindInvalid, "it has no argument")
	}
	stage.Steps = append(stage.Steps, step)
	return nil
}

// end finishes a stage. A CMD holds whether it is written before ENTRYPOINT or after.
func (p *parser) end() {
	s := &p.out.Stages[len(p.out.Stages)-1]
	for _, step := range []*build.Step{p.entrypoint, p.cmd} {
		if step != nil {
			s.Steps = append(s.Steps, *step)
		}
	}
	p.entrypoint, p.cmd = nil, nil
	p.notes = append(p.notes, len(p.out.Notes))
}

func (p *parser) from(i instruction) error {
	if len(p.out.Stages) > 0 {
		p.end()
	}
	flags, rest, err := options(i, "platform")
	if err != nil {
		return err
	}
	lookup := func(name string) (string, error) { return p.global[name], nil }
	for _, given := range flags["platform"] {
		got, err := build.Expand(given, lookup)
		if err == nil && got != p.global["TARGETPLATFORM"] {
			err = i.errorf(api.KindUnsupported, "platform %.80q is not that of this machine, %s", got, p.global["TARGETPLATFORM"])
		}
		if err != nil {
			return err
		}
	}
	f := strings.Fields(rest)
	if len(f) != 1 && (len(f) != 3 || !strings.EqualFold(f[1], "AS")) {
		return i.errorf(api.KindInvalid, "write FROM NAME, or FROM NAME AS STAGE")
	}
	s := build.Stage{Line: i.line}
	s.From, err = build.Expand(f[0], lookup)
	if err != nil {
		return i.errorf(api.KindOf(err), "%v", err)
	}
	if s.From == "" {
		return i.errorf(api.KindInvalid, "%.80s is empty", f[0])
	}
	if len(f) == 3 {
		s.Name = f[2]
		if _, err := strconv.Atoi(s.Name); err == nil || slices.ContainsFunc(p.out.Stages, func(o build.Stage) bool { return strings.EqualFold(o.Name, s.Name) }) {
			return i.errorf(api.KindInvalid, "the stage name %.80q is a number, or is taken", s.Name)
		}
	}
	p.out.Stages = append(p.out.Stages, s)
	return nil
}

// name of a variable.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// arg declares arguments, of the whole file if stage is nil.
func (p *parser) arg(i instruction, stage *build.Stage) error {
	list, err := words(i, i.rest)
	if err != nil {
		return err
	}
	for _, w := range list {
		key, value, has := strings.Cut(w, "=")
		if !name.MatchString(key) {
			return i.errorf(api.KindInvalid, "%.80q is not the name of a variable", key)
		}
		p.used[key] = true
		given, set := p.Args[key]
		if stage == nil {
			if !set {
				if given, err = build.Expand(value, func(n string) (string, error) { return p.global[n], nil }); err != nil {
					return i.errorf(api.KindOf(err), "%v", err)
				}
			}
			p.global[key] = given
			continue
		}
		if !set && !has {
			given, set = p.global[key]
		}
		step := build.Step{Op: build.OpArg, Args: []string{key, given}, Text: i.text(), Line: i.line}
		if !set {
			step.Args[1], step.Expand = value, true
		}
		stage.Steps = append(stage.Steps, step)
	}
	return nil
}

func (p *parser) run(i instruction, step *build.Step) error {
	flags, rest, err := options(i, "mount", "network", "security")
	if err != nil {
		return err
	}
	for _, m := range flags["mount"] {
		if err := p.mount(i, step, m); err != nil {
			return err
		}
	}
	for key, plain := range map[string]string{"network": "default", "security": "sandbox"} {
		if v := flags[key]; v != nil && v[0] != plain {
			return i.errorf(api.KindUnsupported, "option --%s=%.40s is not supported", key, v[0])
		}
	}
	if step.Args, step.Exec = jsonList(rest); !step.Exec {
		step.Args = []string{script(rest, i.here)}
	}
	return nil
}

// mount reads one --mount of a RUN.
func (p *parser) mount(i instruction, step *build.Step, text string) error {
	o := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		key, value, has := strings.Cut(field, "=")
		if !has {
			value = "true"
		}
		if _, twice := o[key]; twice {
			return i.errorf(api.KindInvalid, "--mount has %.40s twice", key)
		}
		o[key] = value
	}
	switch o["type"] {
	case "cache", "tmpfs":
		p.note(i, "--mount=type=%s: nothing is kept between builds, and what the step writes there stays in the template", o["type"])
		return nil
	case "secret":
	default:
		return i.errorf(api.KindUnsupported, "--mount=type=%.40s is not supported", cmp.Or(o["type"], "bind")).WithHint("use COPY for files of the build")
	}
	first := func(keys ...string) (out string) {
		for _, k := range keys {
			out = cmp.Or(out, o[k])
			delete(o, k)
		}
		return out
	}
	first("type")
	target := first("target", "dst", "destination")
	id := first("id", "source", "src")
	id = cmp.Or(id, path.Base(target))
	x := build.Secret{Path: target, Env: first("env"), Mode: 0o400}
	if mode := first("mode"); mode != "" {
		n, err := strconv.ParseUint(mode, 8, 32)
		if err != nil || n > 0o777 {
			return i.errorf(api.KindInvalid, "mode=%.20s of a secret is not octal permissions such as 400", mode)
		}
		x.Mode = uint32(n)
	}
	if first("uid", "gid") != "" {
		p.note(i, "--mount=type=secret: the file belongs to the user of the step, whatever uid and gid say")
	}
	required, err := strconv.ParseBool(cmp.Or(first("required"), "false"))
	switch {
	case err != nil:
		return i.errorf(api.KindInvalid, "required of a secret is not true or false")
	case id == "" || id == ".":
		return i.errorf(api.KindInvalid, "--mount=type=secret has no id")
	case x.Env != "" && !name.MatchString(x.Env):
		return i.errorf(api.KindInvalid, "%.80q is not the name of a variable", x.Env)
	case len(o) > 0:
		return i.errorf(api.KindUnsupported, "option %.40s of --mount=type=secret is not supported", slices.Sorted(maps.Keys(o))[0])
	}
	if x.Path == "" && x.Env == "" {
		x.Path = "/run/secrets/" + path.Base(id)
	}
	p.mounted[id] = true
	if x.Name = p.Secrets[id]; x.Name != "" {
		step.Secrets = append(step.Secrets, x)
		return nil
	}
	if required {
		return i.errorf(api.KindInvalid, "it requires the secret %.80q, which the build was not given", id).WithHint("--secret %s permits the use of your secret of this name, --secret %s=NAME that of another", id, id)
	}
	p.note(i, "runs without the secret %.80q, which the build was not given (--secret %s)", id, id)
	return nil
}

func (p *parser) copy(i instruction, step *build.Step) error {
	flags, rest, err := options(i, "from", "chown", "chmod", "link")
	if err != nil {
		return err
	}
	value := func(key string) string { return strings.Join(flags[key], "") }
	step.From, step.User, step.Files = value("from"), value("chown"), p.Files
	if step.User == "" {
		step.User = "root" // whatever USER says, as in Docker
	}
	if raw := value("chmod"); flags["chmod"] != nil {
		mode, err := strconv.ParseUint(raw, 8, 32)
		if err != nil || mode > 0o777 {
			return i.errorf(api.KindUnsupported, "--chmod=%.20s is not octal permissions such as 755", raw)
		}
		m := uint32(mode)
		step.Mode = &m
	}
	var ok bool
	if step.Args, ok = jsonList(rest); !ok {
		step.Expand = true
		if step.Args, err = words(i, rest); err != nil {
			return err
		}
	}
	for _, h := range i.here {
		step.Args = slices.DeleteFunc(step.Args, func(a string) bool { return a == h.word })
		step.Here = append(step.Here, build.Here{Name: h.name, Text: h.text, Expand: !h.quoted})
	}
	sources := len(step.Args) - 1 + len(step.Here)
	if len(step.Args) == 0 || sources == 0 {
		return i.errorf(api.KindInvalid, "it needs a source and a destination")
	}
	if i.name == "ADD" {
		step.Op, step.Unpack = build.OpCopy, true
		for _, s := range step.Args[:len(step.Args)-1] {
			if strings.Contains(s, "://") || strings.HasPrefix(s, "git@") {
				return i.errorf(api.KindUnsupported, "the source %.100q is an address", s).WithHint("use RUN curl -fsSLo FILE ADDRESS, or RUN git clone, and allow the host with --egress")
			}
		}
		if step.From != "" {
			return i.errorf(api.KindUnsupported, "option --from is not supported").WithHint("use COPY")
		}
	}
	if step.From == "" && p.Files == "" && len(step.Args) > 1 {
		return i.errorf(api.KindInvalid, "the build has no files").WithHint("give the directory of the build")
	}
	return nil
}
