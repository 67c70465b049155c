package report

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"path"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// The programs that run and report tests inside of the sandbox.
var (
	//go:embed runner.py
	pythonRunner []byte
	//go:embed reporter.mjs
	nodeReporter []byte
	//go:embed guard.cjs
	nodeGuard []byte
	//go:embed disguise.cjs
	nodeDisguise []byte
)

// Plan is how a command is run so that it reports its tests.
type Plan struct {
	// Runner is what the command runs its tests with, as a person calls it.
	Runner string
	kind   kind
	// before and after are what stands around the runner in the command.
	before, after string
	// only are the tests that are run; nil for all.
	only []string
	// disguise is what differs from how a gate usually runs.
	disguise Disguise
}

type kind int

const (
	plain kind = iota // whatever it prints: the Test Anything Protocol, perhaps
	unittest
	pytest
	pytestCommand
	node
	golang
	rust
	wrapped // by make, a script of npm and others: see wrapped.go
)

// A simple command: perhaps in a directory, with variables, and nothing of a shell that
// runs a second one or looks at the first one's end.
const (
	lead = `^((?:cd [\w./-]+ && )?(?:[A-Za-z_]\w*=[\w./:,@%+-]* )*`
	rest = `((?: [^;&|<>()$` + "`" + `\\\n#]*)?)$`
)

// TAP is the runner of tests that are read from the Test Anything Protocol.
const TAP = "TAP"

// goRunner is the runner whose packages are in its reports too.
const goRunner = "go test"

var commands = []struct {
	kind   kind
	runner string
	re     *lazyregexp.Regexp
}{
	{unittest, "unittest", lazyregexp.New(lead + `python3?(?: -[bBdEOqsSuvI]+)*) -m unittest` + rest)},
	{pytest, "pytest", lazyregexp.New(lead + `python3?(?: -[bBdEOqsSuvI]+)*) -m pytest` + rest)},
	{pytestCommand, "pytest", lazyregexp.New(lead + `)pytest` + rest)},
	{node, "node --test", lazyregexp.New(lead + `)node --test` + rest)},
	{golang, goRunner, lazyregexp.New(lead + `)go test` + rest)},
	{rust, "cargo test", lazyregexp.New(lead + `)cargo test` + rest)},
}

// For says how a gate's command reports its tests. A plan with the runner "" learns from its reports what the runner is: if
// it can start runners that are known, those report; if not, the tests are what the command prints.
func For(command string) Plan {
	command = strings.TrimSpace(command)
	if p, ok := known(command); ok {
		return p
	}
	if wraps(command) {
		return Plan{kind: wrapped, before: command}
	}
	return Plain(command)
}

// known gives the plan of a command that is a runner.
func known(command string) (Plan, bool) {
	for _, c := range commands {
		m := c.re.FindStringSubmatch(command)
		if m == nil {
			continue
		}
		after := m[2]
		switch {
		case c.kind == golang && strings.Contains(after, "-json"), c.kind == node && strings.Contains(after, "--test-reporter"):
			continue // its own form of output is asked for
		case c.kind == rust:
			after = strings.ReplaceAll(strings.ReplaceAll(after, " --quiet", ""), " -q", "") // which hides names
		}
		return Plan{Runner: c.runner, kind: c.kind, before: m[1], after: after}, true
	}
	return Plan{}, false
}

// Plain gives a plan that runs a command as it stands.
func Plain(command string) Plan { return Plan{kind: plain, before: command} }

// File is written into the sandbox before the command runs.
type File struct {
	Path       string
	Content    []byte
	Executable bool
}

// Run is one run of a command. It is for one goroutine.
type Run struct {
	// Command is what to run.
	Command string
	// Files are written before.
	Files []File
	// Path is where the runner writes its report; empty when stdout tells it.
	Path string

	runner  string
	token   string // in the names of test files
	key     []byte
	reader  reader
	partial []byte
	cut     bool // the line that partial began is being dropped
}

// Arm gives one run. key is random and for this run alone; dir is a directory outside of
// the repository, of the same kind, that need not exist.
func (p Plan) Arm(key []byte, dir string) *Run {
	r := &Run{runner: p.Runner, token: p.disguise.Token, key: key}
	// file adds a program, with what it has to know.
	file := func(name string, content []byte) string {
		at := path.Join(dir, name)
		content = bytes.ReplaceAll(content, []byte("KEY"), []byte(hex.EncodeToString(key)))
		content = bytes.ReplaceAll(content, []byte("DISGUISE"), p.disguise.facts())
		r.Files = append(r.Files, File{Path: at, Content: content})
		return at
	}
	python := map[kind]string{unittest: " unittest", pytest: " pytest", pytestCommand: " pytest --as-command"}
	switch p.kind {
	case unittest, pytest, pytestCommand:
		r.Path = path.Join(dir, "report")
		before := p.before + " "
		if p.kind == pytestCommand {
			before = p.before + "python3 "
		}
		if p.disguise.has(Names) { // a process can read its own arguments
			r.Command = argumentsApart(before+file("app.py", pythonRunner), python[p.kind]+p.after, dir)
		} else {
			r.Command = before + file("runner.py", pythonRunner) + python[p.kind] + p.after
		}
		if p.only != nil {
			names, _ := json.Marshal(p.only) // strings always encode
			r.Files = append(r.Files, File{Path: path.Join(dir, "only"), Content: names})
		}
	case node:
		r.Path = path.Join(dir, "report")
		guard, reporter := file("guard.cjs", nodeGuard), file("reporter.mjs", nodeReporter)
		file("disguise.cjs", nodeDisguise)
		r.Command = p.before + `NODE_OPTIONS="--require=` + guard + `" node --test --test-reporter=spec --test-reporter-destination=stdout --test-reporter=` +
			reporter + " --test-reporter-destination=" + r.Path + p.after
	case golang:
		r.Command = p.before + "go test -json" + p.disguise.flags(file) + p.after
		r.reader = &goTest{r: Report{Runner: p.Runner}, open: map[string]bool{}, held: map[string][]byte{}}
	case rust:
		r.Command = p.before + "cargo test" + p.after
		if !strings.Contains(p.after, " --no-fail-fast") {
			r.Command = p.before + "cargo test --no-fail-fast" + p.after // otherwise the first failure hides other test programs
		}
		r.reader = &cargo{r: Report{Runner: p.Runner}}
	case wrapped:
		p.armWrapped(r, dir, file)
	default:
		r.Command = p.before
		r.reader = &tap{r: Report{Runner: TAP}}
	}
	for i := range r.Files {
		r.Files[i].Executable = r.Files[i].Executable || path.Base(r.Files[i].Path) == goProgram
	}
	r.Command = p.disguise.elsewhere(dir) + r.Command
	return r
}

// maxLine bounds a line of output that is looked at. A longer one is passed on unread.
const maxLine = 64 << 10

// Stdout takes what the command prints to stdout, and gives what a person sees of it.
func (r *Run) Stdout(p []byte) (text []byte) {
	if r.reader == nil {
		return p
	}
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		p = rest
		switch {
		case r.cut:
			text = append(text, line...)
			if whole {
				text = append(text, '\n')
			}
			r.cut = !whole
		case len(r.partial)+len(line) > maxLine:
			text = append(append(text, r.partial...), line...)
			if whole {
				text = append(text, '\n')
			}
			r.partial, r.cut = r.partial[:0], !whole
		case !whole:
			r.partial = append(r.partial, line...)
		default:
			text = append(text, r.reader.line(append(r.partial, line...), true)...)
			r.partial = r.partial[:0]
		}
	}
	return text
}

// End gives what is left of the output.
func (r *Run) End() []byte {
	if len(r.partial) == 0 {
		return nil
	}
	left := r.partial
	r.partial = nil
	return bytes.TrimSuffix(r.reader.line(left, false), []byte{'\n'})
}

// Report gives the report: content is what stands at Path, where there is one.
func (r *Run) Report(content []byte) Report {
	if len(content) > MaxBytes {
		content = content[:MaxBytes]
	}
	var all Report
	switch printed, ok := r.reader.(*printed); {
	case ok:
		all = printed.with(readParts(r.key, content))
	case r.reader != nil:
		all = r.reader.report()
	default:
		all = readSealed(r.runner, r.key, content)
	}
	return all.without(r.token)
}
