package report

import (
	"bytes"
	_ "embed"
	"path"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// The programs that stand before runners in a command that wraps them. DIR is where they are.
var (
	//go:embed hook.cjs
	nodeHook []byte
	//go:embed mocha.cjs
	mochaHook []byte
	//go:embed go.sh
	goShim []byte
	//go:embed node.sh
	nodeShim []byte
	//go:embed python.sh
	pythonShim []byte
)

var (
	// oneAfterAnother is a command without anything of a shell but "&&", so that its exit code is that of its programs.
	oneAfterAnother = lazyregexp.New("^(?:[^;&|<>()$`\\\\\n#]|&&)*$")
	// wrapper is a program that runs the tests of a repository with others, or with a runner that is known there alone.
	wrapper = lazyregexp.New(`^(?:[A-Za-z_]\w*=[\w./:,@%+-]* )*(?:(?:g?make|just|npm|npx|yarn|pnpm|bunx?|mocha|jest|vitest|ava|ctest|mvn|gradle|tox|nox|python3?)|node [\w./][\w./-]*|` +
		`(?:uv|poetry|pipenv|hatch|pdm|rye) run|cmake --build|(?:ba)?sh [\w./-]+|\.{0,2}[\w-]*/[\w./-]+)(?: |$)`)
)

// wraps reports whether a command may start runners that are known.
func wraps(command string) bool {
	return oneAfterAnother.MatchString(command) && slices.ContainsFunc(strings.Split(command, "&&"), func(part string) bool {
		part = strings.TrimSpace(part)
		_, ok := known(part)
		return ok || wrapper.MatchString(part)
	})
}

// armWrapped lets a command run as it stands, with what makes the runners that it starts report their tests: programs before
// theirs in the PATH, and variables that they read. Afterwards what they wrote is put into one file.
//
// Everything here can be read and written by the code under test. So the exit code of the command stays in the shell that started it.
func (p Plan) armWrapped(r *Run, dir string, file func(string, []byte) string) {
	for _, f := range []struct {
		name    string
		content []byte
	}{{"hook.cjs", nodeHook}, {"mocha.cjs", mochaHook}, {"guard.cjs", nodeGuard}, {"disguise.cjs", nodeDisguise}, {"reporter.mjs", nodeReporter}, {"runner.py", pythonRunner}} {
		file(f.name, f.content)
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{"go", goShim}, {"node", nodeShim}, {"python3", pythonShim}, {"python", pythonShim}} {
		content := bytes.ReplaceAll(f.content, []byte("DIR"), []byte(dir))
		r.Files = append(r.Files, File{path.Join(dir, "bin", f.name), content, true})
	}
	r.Path = path.Join(dir, "report")
	r.Command = strings.ReplaceAll(wrapBefore, "DIR", dir) + "(" + p.before + "\n)" + strings.ReplaceAll(wrapAfter, "DIR", dir)
	r.reader = &printed{golang: goTest{r: Report{Runner: goRunner}, open: map[string]bool{}, held: map[string][]byte{}}}
}

// Around a command that wraps runners. Reports of Maven and Gradle from before the run are removed: they may be part of the
// commit, or of what the setup left. MAX is the size of all reports.
const (
	wrapBefore = `mkdir -p DIR/out
for t in go node python3 python; do command -v $t >/dev/null || rm -f DIR/bin/$t; done
find . '(' -name node_modules -o -name .git ')' -prune -o '(' -name pom.xml -o -name build.gradle -o -name build.gradle.kts ')' -print 2>/dev/null | while read -r f; do
  d=${f%/*}
  rm -rf "$d/target/surefire-reports" "$d/target/failsafe-reports" "$d/build/test-results"
  printf '%s\n' "$d"
done >DIR/modules
export HORTUS_GATE_OUT="$(readlink /proc/$$/fd/1)" HORTUS_GATE_TOP="$PWD" PATH="DIR/bin:$PATH" NODE_OPTIONS="--require=DIR/hook.cjs${NODE_OPTIONS:+ $NODE_OPTIONS}" PYTEST_ADDOPTS="--junitxml=DIR/out/pytest.xml${PYTEST_ADDOPTS:+ $PYTEST_ADDOPTS}"
`
	wrapAfter = `
code=$?
rm -rf DIR/report
part() { [ -f "$1" ] && printf 'file %d %s\n' "$(wc -c <"$1")" "$1" && cat "$1"; }
{
  for f in DIR/out/*.report DIR/out/*.xml DIR/python-*/report; do part "$f"; done
  while read -r d; do
    for f in "$d"/target/surefire-reports/TEST-*.xml "$d"/target/failsafe-reports/TEST-*.xml "$d"/build/test-results/*/*.xml; do part "$f"; done
  done <DIR/modules
} >DIR/report 2>/dev/null
exit $code
`
)

// maxParts bounds the files of one report.
const maxParts = 20_000

// readParts reads the reports that were put into one file, each behind a line with its size and path.
func readParts(key, content []byte) (out []Report) {
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte{'\n'})
		fields := strings.SplitN(string(line[:min(len(line), maxLine)]), " ", 3)
		size, err := -1, error(nil)
		if len(fields) == 3 && fields[0] == "file" {
			size, err = strconv.Atoi(fields[1])
		}
		if err != nil || size < 0 || size > len(rest) || len(out) == maxParts {
			r := Report{Runner: "the gate", Began: true}
			r.breaks("its parts cannot be distinguished, are larger than %d MiB or more than %d", MaxBytes>>20, maxParts)
			return append(out, r)
		}
		out = append(out, readPart(key, fields[2], rest[:size]))
		content = rest[size:]
	}
	return out
}

// readPart reads the report of one runner. Who it is stands in the path.
func readPart(key []byte, name string, content []byte) Report {
	runner, _, _ := strings.Cut(path.Base(name), "-")
	switch {
	case strings.HasPrefix(path.Base(path.Dir(name)), "python-"):
		return readSealed("unittest", key, content)
	case path.Base(name) == "pytest.xml":
		return readJUnit("pytest", "", content)
	case path.Ext(name) == ".report" && runner == "node":
		return readSealed("node --test", key, content)
	case path.Ext(name) == ".report" && slices.Contains([]string{"mocha", "jest", "vitest"}, runner):
		return readSealed(runner, key, content)
	}
	for _, tool := range []struct{ runner, under string }{{"Maven", "/target/"}, {"Gradle", "/build/test-results/"}} {
		if module, _, ok := strings.Cut(name, tool.under); ok {
			return readJUnit(tool.runner, strings.TrimPrefix(strings.TrimPrefix(module, "."), "/"), content)
		}
	}
	r := Report{Runner: "the gate", Began: true}
	r.breaks("a part of it has the unknown name %.80q", name)
	return r
}

// merge makes one report of those of a command. It is at its end if all are. A runner without a test says nothing.
func merge(all []Report) Report {
	sum := Report{}
	var runners []string
	ended := true
	for _, r := range all {
		if !r.Began || len(r.Tests) == 0 && r.Ended && r.Broken == "" && len(r.Lost) == 0 && len(r.Tampered) == 0 {
			continue
		}
		sum.Began = true
		ended = ended && r.Ended
		if !slices.Contains(runners, r.Runner) {
			runners = append(runners, r.Runner)
		}
		for name, o := range r.Tests {
			sum.add(name, o)
		}
		for _, name := range r.Lost {
			sum.Lost = note(sum.Lost, name)
		}
		for _, name := range r.Tampered {
			sum.Tampered = note(sum.Tampered, name)
		}
		if r.Broken != "" {
			sum.breaks("%s", r.Broken)
		}
	}
	slices.Sort(runners)
	sum.Runner = strings.Join(runners, ", ")
	sum.Ended = sum.Began && ended && sum.Broken == ""
	return sum
}

// printed reads what the runners print that tell their tests there, all at once: which of them run is not known before.
type printed struct {
	golang goTest
	cargo  cargo
	ctest  ctest
	tap    tap
}

func (p *printed) line(text []byte, whole bool) []byte {
	if bytes.HasPrefix(text, []byte(`{"`)) {
		return p.golang.line(text, whole)
	}
	p.cargo.line(text, whole)
	p.ctest.line(text, whole)
	return p.tap.line(text, whole)
}

func (p *printed) report() Report { return p.with(nil) }

// reports are those of the runners. Lines that only look like a report have no end.
func (p *printed) reports() (out []Report) {
	p.cargo.r.Runner, p.ctest.r.Runner, p.tap.r.Runner = "cargo test", "ctest", TAP
	if r := p.golang.report(); r.Began {
		out = append(out, r)
	}
	for _, lines := range []reader{&p.cargo, &p.ctest, &p.tap} {
		if r := lines.report(); r.Began && len(r.Tests) > 0 && (r.Ended || lines != reader(&p.tap)) {
			out = append(out, r)
		}
	}
	return out
}

// with gives the report of all runners: of those that printed theirs, and others. If there is none, what looks like one is it.
func (p *printed) with(others []Report) Report {
	if sum := merge(append(p.reports(), others...)); sum.Began {
		return sum
	}
	return p.tap.report()
}

// ctest reads the lines that CMake's ctest prints.
type ctest struct {
	r     Report
	total int // of the last line of each run
	seen  int
}

var (
	ctestTest = lazyregexp.New(`^ *\d+/\d+ Test +#\d+: (.+?)[ .]*(?:   |\*\*\*)(Passed|Failed|Not Run|Skipped|Timeout|[A-Z]\w*)(?:\W|$)`)
	ctestEnds = lazyregexp.New(`^\d+% tests passed, \d+ tests? failed out of (\d+)`)
)

func (c *ctest) line(text []byte, _ bool) []byte {
	if m := ctestEnds.FindSubmatch(text); m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		c.total += n
		return append(text, '\n')
	}
	m := ctestTest.FindSubmatch(text)
	if m == nil {
		return append(text, '\n')
	}
	c.r.Began = true
	c.seen++
	o := Failed
	switch how := string(m[2]); {
	case how == "Passed":
		o = Passed
	case how == "Skipped", bytes.Contains(text, []byte("(Disabled)")):
		o = Skipped
	case how == "Not Run":
		o = Broken // its program was not built
	}
	c.r.add(string(m[1]), o)
	return append(text, '\n')
}

func (c *ctest) report() Report {
	c.r.Ended = c.r.Began && c.total > 0 && c.seen >= c.total
	return c.r
}
