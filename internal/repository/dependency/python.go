package dependency

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// testExtras are the names of extras and groups that tests need.
func testExtras() []string { return []string{"test", "tests", "testing", "dev"} }

// requirementFiles are those of a project, the one of its program first.
func requirementFiles() []string {
	return []string{
		"requirements.txt", "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt", "dev_requirements.txt",
		"requirements-test.txt", "requirements-tests.txt", "requirements_test.txt", "test-requirements.txt", "test_requirements.txt",
		"requirements/test.txt", "requirements/tests.txt", "requirements/testing.txt", "requirements/dev.txt",
		"tests/requirements.txt", "test/requirements.txt",
	}
}

// isolated runs a program of pip's without the packages of the repository: a file of its top, or of its directory of sources,
// must not be treated as one of Python's.
const isolated = "PYTHONPATH= python3 -I -m "

// pip installs what a project and its tests need next to the repository: the sandbox's own Python may be read-only. The project
// itself is not installed: it is where it is.
func (d *detector) pip(dir string) {
	c := &collection{detector: d, dir: dir, names: map[string]bool{}, taken: map[string]bool{}}
	c.manifests()
	var hashed, args, from []string
	unpinned := false
	for _, name := range requirementFiles() {
		p := path.Join(dir, name)
		if !d.has(p) || d.taken[p] {
			continue
		}
		d.taken[p] = true
		l := d.requirements(p)
		if l.why == "" && l.hashed && l.local {
			l.why = "it has digests, and lines that are not packages with versions"
		}
		for _, extra := range l.extras {
			c.extra(extra)
		}
		switch {
		case l.why != "":
			d.note("%s is not installed, because %s: repair it, or write %s", p, l.why, RecipePath)
			continue
		case len(l.lines) == 0 || l.unpinned && d.aside(p):
			continue
		}
		for _, line := range l.lines {
			if m := requirement.FindStringSubmatch(line); m != nil {
				c.names[normal(m[1])] = true
			}
			if l.local {
				c.add(p, line)
			}
		}
		if l.local {
			continue
		}
		for _, f := range l.files {
			d.input(".", f)
			if options(d.Read(f)) {
				d.runs("packages of the repository that %s may name", f)
			}
		}
		if l.unpinned {
			unpinned = true
			d.unlocked(p, "pip")
		}
		from = append(from, p)
		if l.hashed {
			hashed = append(hashed, "-r "+name)
		} else {
			args = append(args, "-r "+name)
		}
	}
	if len(c.lines) > 0 && d.aside(c.from[0]) {
		c.lines, c.from = nil, nil
	}
	for _, p := range c.from {
		unpinned = true
		d.unlocked(p, "pip")
	}
	from = append(from, c.from...)
	for _, line := range c.lines {
		args = append(args, "'"+line+"'")
	}
	to := "pip install --target " + python + " "
	results := []string{python, Cache + "/pip"}
	var steps []Step
	if len(hashed) > 0 {
		s := install(isolated+to+"--upgrade "+strings.Join(hashed, " "), results, "python3")
		s.Name = "pip install"
		steps = append(steps, s)
	} else {
		to += "--upgrade " // otherwise what is there stays
	}
	if p := d.ownManifest(dir); testsOfPytest(d.Tree, dir) && !c.names["pytest"] && (len(from) > 0 || p != "" && !d.aside(p)) {
		if len(from) == 0 {
			from = []string{p}
		}
		unpinned = true
		d.warn("%s does not name pytest, which the tests need: pip installs the newest; the result is kept until hortus repo prepare --fresh", from[0])
		args = append(args, "pytest")
	}
	if len(args) > 0 {
		s := install(isolated+to+strings.Join(args, " "), results, "python3")
		if s.Name = "pip install"; len(steps) > 0 {
			s.Name = "pip install for tests"
		}
		s.Optional = unpinned && dir != "."
		if len(args) == 1 && args[0] == "pytest" {
			s.Name, s.Optional = "pip install pytest", true
			s.Run = "python3 -I -c 'import pytest' 2>/dev/null || " + s.Run
		}
		steps = append(steps, s)
	}
	if len(steps) == 0 {
		d.pythonPath(dir, "")
		return
	}
	d.plan.Env["PIP_CACHE_DIR"] = Cache + "/pip"
	d.path(python + "/bin")
	d.pythonPath(dir, python)
	d.found(dir, from[0], "pip", steps...)
	d.plan.From = append(d.plan.From, from[1:]...)
}

// names are the normal names of the packages that the manifests and the files of requirements of a directory name.
func (d *detector) names(dir string) []string {
	c := &collection{detector: d, dir: dir, names: map[string]bool{}, taken: map[string]bool{}}
	c.manifests()
	for _, name := range requirementFiles() {
		if p := path.Join(dir, name); d.has(p) {
			for _, line := range d.requirements(p).lines {
				c.add(p, line)
			}
		}
	}
	return slices.Collect(maps.Keys(c.names))
}

// pythonManifests are the files by which a directory is a project of Python.
func pythonManifests() []string {
	return []string{"pyproject.toml", "setup.cfg", "setup.py", "requirements.txt"}
}

// ownManifest returns the manifest of a project of Python; empty if there is none.
func (d *detector) ownManifest(dir string) string {
	for _, name := range pythonManifests() {
		if p := path.Join(dir, name); d.has(p) {
			return p
		}
	}
	return ""
}

// pythonPath adds the sources of a project with the layout src, and a directory of packages, if any.
func (d *detector) pythonPath(dir, packages string) {
	var list []string
	if have := d.plan.Env["PYTHONPATH"]; have != "" {
		list = strings.Split(have, ":")
	}
	at := slices.IndexFunc(list, func(p string) bool { return strings.HasPrefix(p, Cache+"/") })
	if at < 0 {
		at = len(list)
	}
	src := path.Join(dir, "src")
	inSrc := slices.ContainsFunc(d.Paths, func(p string) bool {
		rest, ok := strings.CutPrefix(p, src+"/")
		return ok && path.Ext(p) == ".py" && strings.Count(rest, "/") <= 1
	})
	if p := path.Join(Workspace, src); inSrc && !d.has(path.Join(src, "__init__.py")) && !strings.Contains(p, ":") && !slices.Contains(list, p) {
		list = slices.Insert(list, at, p)
	}
	if packages != "" && !slices.Contains(list, packages) {
		list = append(list, packages)
	}
	if len(list) > 0 {
		d.plan.Env["PYTHONPATH"] = strings.Join(list, ":")
	}
}

var (
	importsPytest = lazyregexp.New(`(?m)^\s*(?:import|from)\s+pytest\b`)
	plainTest     = lazyregexp.New(`(?m)^(?:async )?def test_`)
	pytestTable   = lazyregexp.New(`(?m)^\[(?:tool\.pytest[\w.]*|tool:pytest|pytest)\]`)
)

// testsOfPytest reports whether a project has tests of pytest.
func testsOfPytest(t Tree, dir string) bool {
	for _, name := range []string{"pyproject.toml", "setup.cfg", "tox.ini"} {
		if pytestTable.Match(t.Read(path.Join(dir, name))) {
			return true
		}
	}
	const most = 200 // files that are read
	n := 0
	for _, p := range t.Paths {
		if dir != "." && !strings.HasPrefix(p, dir+"/") || !searched(path.Dir(p)) {
			continue
		}
		b := path.Base(p)
		if b == "conftest.py" || b == "pytest.ini" {
			return true
		}
		if path.Ext(b) != ".py" || !strings.HasPrefix(b, "test_") && !strings.HasSuffix(b, "_test.py") {
			continue
		}
		if text := t.Read(p); importsPytest.Match(text) || plainTest.Match(text) {
			return true
		}
		if n++; n == most {
			break
		}
	}
	return false
}

// bringPython is the step that installs uv or Poetry, unless the sandbox has it.
func (d *detector) bringPython(name string) Step {
	dir := pythonTools + "/" + name
	d.path(dir + "/bin")
	s := install("command -v "+name+" >/dev/null || "+isolated+"pip install --target "+dir+" --upgrade "+name, []string{dir}, "python3")
	s.Name = "pip install " + name
	return s
}

// pythonTools is where uv and Poetry are installed.
const pythonTools = Cache + "/tools"

// venvPackages has the packages of .venv found by a Python that was not started from there. Their directory has a version in its
// name, so it gets a link.
const venvPackages = ` && ln -sfn "$(.venv/bin/python -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" ` + venv

func (d *detector) uv(dir string) {
	run := "PYTHONPATH= UV_PYTHON_DOWNLOADS=never uv sync --frozen --no-install-project"
	t := d.toml(dir)
	for _, name := range testExtras() {
		if _, ok := t.Project.Optional[name]; ok {
			run += " --extra " + name
		}
		if _, ok := t.Groups[name]; ok && name != "dev" {
			run += " --group " + name
		}
	}
	s := install(run+venvPackages, []string{path.Join(dir, ".venv"), venv}, "python3")
	s.Name = "uv sync"
	d.input(dir, ".python-version", "pyproject.toml", "uv.toml")
	d.pyproject(dir)
	d.pythonPath(dir, venv)
	d.add(path.Join(dir, "uv.lock"), "pip", d.bringPython("uv"), s)
}

// pyproject notes packages of the repository that are installed with a project: members of a workspace and paths.
func (d *detector) pyproject(dir string) {
	p := path.Join(dir, "pyproject.toml")
	for _, word := range []string{"workspace", "path", "file:", "editable", "plugins", "develop"} {
		if bytes.Contains(d.Read(p), []byte(word)) || word == "workspace" && d.has(path.Join(dir, "uv.toml")) {
			d.runs("packages of the repository that %s may name", p)
			return
		}
	}
}

func (d *detector) poetry(dir string) {
	// Poetry is a program of Python, and finds its own packages there.
	run := "PYTHONPATH=" + pythonTools + "/poetry POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-root --no-interaction"
	s := install(run+venvPackages, []string{path.Join(dir, ".venv"), venv}, "python3")
	s.Name = "poetry install"
	d.input(dir, "poetry.toml")
	d.pyproject(dir)
	d.pythonPath(dir, venv)
	d.add(path.Join(dir, "poetry.lock"), "pip", d.bringPython("poetry"), s)
}
