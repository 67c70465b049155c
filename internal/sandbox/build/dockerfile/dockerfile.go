package dockerfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
}

// File is what a Dockerfile says.
type File struct {
	// Stages end with the target.
	Stages []build.Stage
	// Notes are about instructions that change nothing.
	Notes []string
}

// instruction is one instruction with its line.
type instruction struct {
	name, rest string
	line       int
}

func (i instruction) text() string {
	return strings.ToValidUTF8(i.name+" "+strings.Join(strings.Fields(i.rest), " "), "\uFFFD")
}

// errorf is an error about an instruction.
func (i instruction) errorf(kind api.Kind, format string, args ...any) *api.Error {
	return api.Errorf(kind, "Dockerfile line %d: %s: %s", i.line, i.name, fmt.Sprintf(format, args...))
}

// Parse reads a Dockerfile.
func Parse(text string, o Options) (File, error) {
	list, err := split(text)
	if err != nil {
		return File{}, err
	}
	p := parser{Options: o, global: map[string]string{}, used: map[string]bool{}}
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

// split returns the instructions of a Dockerfile, with continued lines joined.
func split(text string) (out []instruction, err error) {
	switch {
	case len(text) > MaxBytes:
		return nil, api.Errorf(api.KindInvalid, "the Dockerfile has %d bytes; the maximum is %d", len(text), MaxBytes)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return nil, api.Errorf(api.KindInvalid, "the Dockerfile is not UTF-8 text")
	}
	n, begun := 0, 0
	joined := ""
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		if key, value, ok := strings.Cut(strings.TrimPrefix(trimmed, "#"), "="); ok && trimmed[0] == '#' && len(out) == 0 && begun == 0 &&
			strings.EqualFold(strings.TrimSpace(key), "escape") && strings.TrimSpace(value) != `\` {
			return nil, api.Errorf(api.KindUnsupported, "Dockerfile line %d: another escape character than \\ is not supported", n)
		}
		if trimmed == "" || trimmed[0] == '#' {
			continue // also between continued lines
		}
		if begun == 0 {
			begun, line = n, strings.TrimLeft(line, " \t")
		}
		if body := strings.TrimRight(line, " \t"); strings.HasSuffix(body, `\`) {
			joined += body[:len(body)-1]
			continue
		}
		joined += line
		name, rest, _ := strings.Cut(joined, " ")
		if at := strings.IndexAny(joined, " \t"); at >= 0 {
			name, rest = joined[:at], joined[at+1:]
		}
		out = append(out, instruction{strings.ToUpper(name), strings.TrimSpace(rest), begun})
		joined, begun = "", 0
	}
	if begun != 0 {
		return nil, api.Errorf(api.KindInvalid, "Dockerfile line %d: the last line ends with \\", begun)
	}
	return out, nil
}

type parser struct {
	Options
	out    File
	global map[string]string // arguments before the first FROM
	used   map[string]bool

	entrypoint, cmd []string
	command         instruction // the last CMD or ENTRYPOINT of the stage
	notes           []int       // how many notes there are up to the end of each stage
}

// heredoc is the beginning of a here-document.
var heredoc = regexp.MustCompile(`(^|[^<])<<-?\s*["']?[A-Za-z_]`)

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
	if heredoc.MatchString(i.rest) && (i.name == "RUN" || i.name == "COPY") {
		return i.errorf(api.KindUnsupported, "here-documents (<<) are not supported").WithHint("write the commands with && and \\, or COPY a script")
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
		var flags map[string]string
		var rest string
		if flags, rest, err = options(i); err == nil {
			err = refuse(i, flags)
		}
		step.Args, step.Exec = []string{rest}, false
		if list, ok := jsonList(rest); ok {
			step.Args, step.Exec = list, true
		}
	case "COPY":
		err = p.copy(i, &step)
	case "SHELL":
		list, ok := jsonList(i.rest)
		if !ok {
			return i.errorf(api.KindInvalid, `write it as a JSON list, such as ["/bin/bash", "-c"]`)
		}
		step.Args = list
	case "CMD", "ENTRYPOINT":
		list, ok := jsonList(i.rest)
		if !ok {
			list = []string{"/bin/sh", "-c", i.rest}
		}
		if p.command = i; i.name == "CMD" {
			p.cmd = list
		} else if p.entrypoint = list; !ok {
			p.entrypoint, p.cmd = list, nil
		}
		return nil
	case "EXPOSE", "LABEL", "MAINTAINER":
		p.out.Notes = append(p.out.Notes, fmt.Sprintf("line %d: %s changes nothing in a sandbox", i.line, i.name))
		return nil
	case "ADD":
		return i.errorf(api.KindUnsupported, "it is not supported").WithHint("use COPY, and RUN with tar or curl")
	default:
		return i.errorf(api.KindUnsupported, "this instruction is not supported").
			WithHint("supported are FROM, ARG, ENV, RUN, COPY, WORKDIR, USER, SHELL, CMD and ENTRYPOINT")
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

// end finishes a stage.
func (p *parser) end() {
	if list := slices.Concat(p.entrypoint, p.cmd); len(list) > 0 {
		s := &p.out.Stages[len(p.out.Stages)-1]
		op := build.OpCommand
		if p.entrypoint != nil {
			op = build.OpEntrypoint
		}
		s.Steps = append(s.Steps, build.Step{Op: op, Args: list, Text: p.command.text(), Line: p.command.line})
	}
	p.entrypoint, p.cmd = nil, nil
	p.notes = append(p.notes, len(p.out.Notes))
}

func (p *parser) from(i instruction) error {
	if len(p.out.Stages) > 0 {
		p.end()
	}
	flags, rest, err := options(i)
	if err == nil {
		err = refuse(i, flags)
	}
	if err != nil {
		return err
	}
	f := strings.Fields(rest)
	if len(f) != 1 && (len(f) != 3 || !strings.EqualFold(f[1], "AS")) {
		return i.errorf(api.KindInvalid, "write FROM NAME, or FROM NAME AS STAGE")
	}
	s := build.Stage{Line: i.line}
	s.From, err = build.Expand(f[0], func(name string) (string, error) { return p.global[name], nil })
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

func (p *parser) copy(i instruction, step *build.Step) error {
	flags, rest, err := options(i)
	if err != nil {
		return err
	}
	step.From, step.User, step.Files = flags["from"], flags["chown"], p.Files
	if step.User == "" {
		step.User = "root" // whatever USER says, as in Docker
	}
	if raw, ok := flags["chmod"]; ok {
		mode, err := strconv.ParseUint(raw, 8, 32)
		if err != nil || mode > 0o777 {
			return i.errorf(api.KindUnsupported, "--chmod=%.20s is not octal permissions such as 755", raw)
		}
		m := uint32(mode)
		step.Mode = &m
	}
	for _, known := range []string{"from", "chown", "chmod"} {
		delete(flags, known)
	}
	if err := refuse(i, flags); err != nil {
		return err
	}
	var ok bool
	if step.Args, ok = jsonList(rest); !ok {
		step.Expand = true
		if step.Args, err = words(i, rest); err != nil {
			return err
		}
	}
	if len(step.Args) < 2 {
		return i.errorf(api.KindInvalid, "it needs a source and a destination")
	}
	if step.From == "" && p.Files == "" {
		return i.errorf(api.KindInvalid, "the build has no files").WithHint("give the directory of the build")
	}
	return nil
}

// options returns the flags at the beginning of an instruction, and what follows.
func options(i instruction) (map[string]string, string, error) {
	flags := map[string]string{}
	rest := i.rest
	for strings.HasPrefix(rest, "--") {
		word := rest
		if at := strings.IndexAny(rest, " \t"); at >= 0 {
			word = rest[:at]
		}
		rest = strings.TrimLeft(rest[len(word):], " \t")
		key, value, _ := strings.Cut(word[2:], "=")
		if _, twice := flags[key]; twice || key == "" {
			return nil, "", i.errorf(api.KindUnsupported, "option --%.40s is malformed, or there twice", key)
		}
		flags[key] = value
	}
	return flags, rest, nil
}

// refuse returns an error for flags that are not supported.
func refuse(i instruction, flags map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		return i.errorf(api.KindUnsupported, "option --%.40s is not supported", key)
	}
	return nil
}

// jsonList reads the JSON form of an instruction.
func jsonList(s string) ([]string, bool) {
	var list []string
	if !strings.HasPrefix(s, "[") || json.Unmarshal([]byte(s), &list) != nil || len(list) == 0 {
		return nil, false
	}
	return list, true
}

// words splits at spaces outside of quotes. Quotes and backslashes stay.
func words(i instruction, s string) (out []string, err error) {
	var quote byte
	word := -1
	for at := 0; at < len(s); at++ {
		c := s[at]
		if word < 0 && c != ' ' && c != '\t' {
			word = at
		}
		switch {
		case c == '\\' && quote != '\'':
			at++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case (c == ' ' || c == '\t') && word >= 0:
			out, word = append(out, s[word:at]), -1
		}
	}
	if quote != 0 {
		return nil, i.errorf(api.KindInvalid, "a quote is not closed")
	}
	if word >= 0 {
		out = append(out, s[word:])
	}
	return out, nil
}

// pairs returns the names and values of ENV.
func pairs(i instruction) ([]string, error) {
	list, err := words(i, i.rest)
	if err != nil {
		return nil, err
	}
	var out []string
	if !strings.Contains(list[0], "=") { // ENV NAME value
		value := strings.TrimSpace(i.rest[len(list[0]):])
		if value == "" {
			return nil, i.errorf(api.KindInvalid, "%.80s has no value", list[0])
		}
		out = []string{list[0], value}
	} else {
		for _, w := range list {
			key, value, ok := strings.Cut(w, "=")
			if !ok {
				return nil, i.errorf(api.KindInvalid, "%.80q is not NAME=VALUE", w)
			}
			out = append(out, key, value)
		}
	}
	for n := 0; n < len(out); n += 2 {
		if !name.MatchString(out[n]) {
			return nil, i.errorf(api.KindInvalid, "%.80q is not the name of a variable", out[n])
		}
	}
	return out, nil
}
