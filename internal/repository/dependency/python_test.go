package dependency

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pipRun is the command of pip before its requirements.
const pipRun = "PYTHONPATH= python3 -I -m pip install --target /workspace/.git/hortus/python --upgrade "

// TestPython: what a project and its tests need is installed, and nothing else that its files name.
func TestPython(t *testing.T) {
	const need = "[project]\nname = 'shop'\n"
	for _, c := range []struct {
		name    string
		files   map[string]string
		run     string // the requirements; empty if nothing is installed
		path    string // PYTHONPATH
		note    string
		warning string
	}{
		{name: "dependencies", files: map[string]string{"pyproject.toml": need + "dependencies = ['a>=1,<2', \"b[x, y] ~= 1.0 ; python_version < '3.13'\"]\n"},
			run: `'a>=1,<2' 'b[x,y]~=1.0; python_version < "3.13"'`, warning: "pyproject.toml has no lock file: pip installs the newest"},
		{name: "the layout src", files: map[string]string{"pyproject.toml": need + "dependencies = ['a']\n", "src/shop/__init__.py": ""},
			run: "'a'", path: "/workspace/src:/workspace/.git/hortus/python"},
		{name: "a package src", files: map[string]string{"pyproject.toml": need + "dependencies = ['a']\n", "src/__init__.py": ""}, run: "'a'"},
		{name: "extras", files: map[string]string{"pyproject.toml": need + "[project.optional-dependencies]\ntest = ['t', 'shop[fast]']\nfast = ['f']\ndocs = ['sphinx']\nDev = ['d']\n"}, run: "'t' 'f' 'd'"},
		{name: "groups", files: map[string]string{"pyproject.toml": need + "[dependency-groups]\ntests = ['t', {include-group = 'more'}]\nmore = ['m', {include-group = 'tests'}]\nlint = ['ruff']\n"}, run: "'t' 'm'"},
		{name: "the project itself", files: map[string]string{"pyproject.toml": need + "dependencies = ['Shop']\n"}},
		{name: "addresses and paths", files: map[string]string{"pyproject.toml": need + "dependencies = ['a', 'b @ https://example.org/b.whl', './c', '-r x', 'git+https://example.org/d']\n"}, run: "'a'", note: "names \"b @ https"},
		{name: "shell characters", files: map[string]string{"pyproject.toml": need + "dependencies = [\"a'; id; '\", 'b$(id)', 'c`id`', \"d; os_name == '$(id)'\", 'e>1;\\nid', 'f']\n"}, run: "'f'", note: "is not a package with versions"},
		{name: "options", files: map[string]string{"pyproject.toml": need + "dependencies = ['--index-url=x', '-e .', 'a --pre']\n"}, note: "is not a package with versions"},
		{name: "no TOML", files: map[string]string{"pyproject.toml": "[project\n"}, note: "pyproject.toml cannot be read"},
		{name: "other types", files: map[string]string{"pyproject.toml": "[project]\ndependencies = [1, ['a']]\n"}},
		{name: "a text where a list must be", files: map[string]string{"pyproject.toml": "[project]\ndependencies = 'a'\n"}, note: "cannot be read"},
		{name: "too large", files: map[string]string{"pyproject.toml": need + strings.Repeat("#", maxManifest)}, note: "more than 262144 bytes"},
		{name: "very nested", files: map[string]string{"pyproject.toml": "a = " + strings.Repeat("[", maxManifest/2)}, note: "cannot be read"},
		{name: "too many", files: map[string]string{"setup.cfg": "[options]\ninstall_requires =\n" + many(maxRequirements+1)}, run: "'p0' ", note: "only the first 300"},
		{name: "a long name", files: map[string]string{"pyproject.toml": need + "dependencies = ['" + strings.Repeat("a", maxRequirement+1) + "']\n"}, note: "is not a package with versions"},
		{name: "setup.cfg", files: map[string]string{"setup.cfg": "[metadata]\nname = shop\n[options]\ninstall_requires =\n    a>=1 # ours\n    b; python_version<'4'\n[options.extras_require]\ntesting =\n    t\ndocs =\n    sphinx\n"},
			run: `'a>=1' 'b; python_version<"4"' 't'`, warning: "setup.cfg has no lock file"},
		{name: "setup.py", files: map[string]string{"setup.py": "setup(name='shop', install_requires=['a[x]>=1', # c\n \"b\"], extras_require={'test': ['t'], 'docs': ['sphinx']})\n"}, run: "'a[x]>=1' 'b' 't'"},
		{name: "setup.py with a variable", files: map[string]string{"setup.py": "requires = [\n    'a>=1',\n]\nsetup(install_requires=requires, package_data={'tests': ['data']})\n"}, run: "'a>=1'"},
		{name: "setup.py that computes", files: map[string]string{"setup.py": "setup(install_requires=read())\n"}, note: "setup.py computes install_requires"},
		{name: "tox", files: map[string]string{"pyproject.toml": need, "tox.ini": "[testenv]\ndeps =\n    t>=1\n    py310: old\n    {env:X}\n    -r{toxinidir}/requirements/ci.txt\n    .[test]\n[testenv:docs]\ndeps = sphinx\n", "requirements/ci.txt": "c==1\n"}, run: "'t>=1' 'c==1'"},
		{name: "files of requirements", files: map[string]string{"requirements.txt": "a==1\n", "requirements-dev.txt": "-r requirements.txt\nd\n", "requirements/test.txt": "t\n"},
			run: "-r requirements.txt -r requirements-dev.txt -r requirements/test.txt", warning: "requirements-dev.txt has no lock file"},
		{name: "the project in a file of requirements", files: map[string]string{"pyproject.toml": need + "dependencies = ['a']\n[project.optional-dependencies]\nci = ['x']\n", "requirements-dev.txt": "-e .[ci]\nd>=1\n"}, run: "'a' 'x' 'd>=1'"},
		{name: "paths in a file of requirements", files: map[string]string{"requirements.txt": "./lib\na==1\nb @ file:///workspace/b#x==1\nwheels/c-1.0-py3-none-any.whl\n../d\ngit+https://example.org/e\n"}, run: "'a==1'", note: "names \"./lib\""},
		{name: "digests", files: map[string]string{"requirements.txt": "a==1 --hash=sha256:00\n", "setup.cfg": "[options]\ninstall_requires = a\n"}, run: "-r requirements.txt"},
		{name: "digests and paths", files: map[string]string{"requirements.txt": "a==1 --hash=sha256:00\n-e .\n"}, note: "it has digests, and lines"},
		{name: "files that setuptools reads", files: map[string]string{"pyproject.toml": "[tool.setuptools.dynamic]\ndependencies = {file = ['requirements/base.in', '../x']}\n", "requirements/base.in": "b>1\n"}, run: "'b>1'"},
		{name: "poetry without a lock file", files: map[string]string{"pyproject.toml": "[tool.poetry.dependencies]\npython = '^3.9'\na = '^1.2'\nb = {version = '~0.3.1', extras = ['x']}\nc = {git = 'https://example.org/c'}\nd = '*'\n[tool.poetry.group.test.dependencies]\nt = '2'\n"},
			run: "'a>=1.2,==1.*' 'b[x]>=0.3.1,==0.3.*' 'd' 't==2'", note: `names "c" without a version`},
		{name: "hatch", files: map[string]string{"pyproject.toml": need + "[tool.hatch.envs.default]\ndependencies = ['a']\n[tool.hatch.envs.hatch-test]\nextra-dependencies = ['t']\nfeatures = ['fast']\n[tool.hatch.envs.docs]\ndependencies = ['sphinx']\n[project.optional-dependencies]\nfast = ['f']\n"}, run: "'a' 't' 'f'"},
		{name: "nox", files: map[string]string{"setup.cfg": "[metadata]\nname = shop\n[options.extras_require]\nci =\n    x\n", "requirements/ci.in": "c\n",
			"noxfile.py": "def lint(session):\n    session.install('black')\n\n@nox.session\ndef tests(session):\n    session.install(\n        't>=1',\n        '-r', 'requirements/ci.in', '-c', 'constraints.txt', '-e', '.[ci]', '--quiet', f'{x}')\n    session.run('pytest')\n"}, run: "'t>=1' 'c' 'x'", warning: "noxfile.py has no lock file"},
		{name: "the layout src and nothing to install", files: map[string]string{"pyproject.toml": need, "src/shop/__init__.py": ""}, path: "/workspace/src"},
		{name: "pdm", files: map[string]string{"pyproject.toml": "[tool.pdm.dev-dependencies]\ntest = ['t']\n"}, run: "'t'"},
		{name: "pytest that nobody names", files: map[string]string{"setup.cfg": "[options]\ninstall_requires = a\n", "tests/test_a.py": "import pytest\n"}, run: "'a' pytest", warning: "does not name pytest"},
		{name: "pytest by a version", files: map[string]string{"requirements.txt": "pytest==8.0\n", "tests/conftest.py": ""}, run: "-r requirements.txt"},
		{name: "tests of unittest", files: map[string]string{"requirements.txt": "a==1\n", "tests/test_a.py": "import unittest\n"}, run: "-r requirements.txt"},
		{name: "tests without a manifest", files: map[string]string{"tests/test_a.py": "import pytest\n"}},
		{name: "a project of tests", files: map[string]string{"tests/data/setup.py": "setup(install_requires=['a'])\n"}, note: "is in a directory tests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Detect(tree(c.files))
			run := ""
			if len(p.Steps) > 0 {
				run = p.Steps[0].Run
			}
			if want := pipRun + c.run; c.run == "" && run != "" || c.run != "" && run != want && !(strings.HasSuffix(c.run, " ") && strings.HasPrefix(run, want)) {
				t.Errorf("runs %.300q, want %q", run, want)
			}
			if got := p.Env["PYTHONPATH"]; c.path != "" && got != c.path || c.path == "" && c.run != "" && got != python {
				t.Errorf("PYTHONPATH %q, want %q", got, c.path)
			}
			if got := strings.Join(p.Notes, "; "); !strings.Contains(got, c.note) || c.note == "" && got != "" {
				t.Errorf("notes %q, want %q", got, c.note)
			}
			if got := strings.Join(p.Warnings, "; "); !strings.Contains(got, c.warning) || (got != "") != (c.run != "" && got != "") {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("    p")
		b.WriteString(strings.Repeat("x", i%7))
		b.WriteString(string(rune('0'+i%10)) + strings.Repeat("y", i/10) + "\n")
	}
	return b.String()
}

// TestPytestAlone: tests that need nothing but pytest use that of the sandbox, and go on without it.
func TestPytestAlone(t *testing.T) {
	p := Detect(tree(map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n", "src/a.py": ""}))
	if len(p.Steps) != 1 || !p.Steps[0].Optional || !strings.HasPrefix(p.Steps[0].Run, "python3 -I -c 'import pytest' 2>/dev/null || ") {
		t.Errorf("%+v", p.Steps)
	}
}

// TestSeveralPythons: a project below does not hide the sources of the one above, and its failure is not that of all.
func TestSeveralPythons(t *testing.T) {
	p := Detect(tree(map[string]string{
		"pyproject.toml": "[project]\ndependencies = ['a']\n", "src/a/__init__.py": "", "lib/pyproject.toml": "[project]\ndependencies = ['b']\n", "lib/src/b/__init__.py": "",
		"tests/requirements.txt": "t==1\n",
	}))
	if got, want := names(p), "pip install, pip install in lib"; got != want || p.Steps[0].Optional || !p.Steps[1].Optional {
		t.Errorf("%s, want %s: %+v", got, want, p.Steps)
	}
	if got, want := p.Env["PYTHONPATH"], "/workspace/src:/workspace/lib/src:"+python; got != want {
		t.Errorf("PYTHONPATH %s, want %s", got, want)
	}
	if got, want := p.In("x").Env["PYTHONPATH"], "/workspace/x/src:/workspace/x/lib/src:"+python+"/x"; got != want {
		t.Errorf("PYTHONPATH %s, want %s", got, want)
	}
}

// TestLockedPython: uv and Poetry are installed if the sandbox lacks them, and a Python of the sandbox finds their packages.
func TestLockedPython(t *testing.T) {
	p := Detect(tree(map[string]string{"uv.lock": "", "pyproject.toml": "[project.optional-dependencies]\ntest = []\n'x; id' = []\n[dependency-groups]\ndev = []\ntests = []\n", "src/a.py": ""}))
	if got := p.Steps[1].Run; !strings.Contains(got, "uv sync --frozen --no-install-project --extra test --group tests && ln -sfn ") {
		t.Error(got)
	}
	if got, want := p.Env["PYTHONPATH"], "/workspace/src:"+venv; got != want {
		t.Errorf("PYTHONPATH %s, want %s", got, want)
	}
	if !strings.HasPrefix(p.Steps[0].Run, "command -v uv >/dev/null || ") || strings.Join(p.Path, " ") != pythonTools+"/uv/bin" {
		t.Errorf("%+v %v", p.Steps[0], p.Path)
	}
	for _, s := range p.Steps {
		if strings.Join(s.Needs, " ") != "python3" {
			t.Errorf("%s needs %v", s.Name, s.Needs)
		}
	}
}

// FuzzRequirement: what is accepted cannot end its quotes, and is no option.
func FuzzRequirement(f *testing.F) {
	f.Add("a[b]>=1; python_version < '3'")
	f.Add("a' ; id")
	f.Add("-e .")
	f.Fuzz(func(t *testing.T, text string) {
		c := &collection{detector: &detector{}, names: map[string]bool{}, taken: map[string]bool{}}
		c.add("x", text)
		for _, line := range c.lines {
			if strings.ContainsAny(line, "'\n\x00$`\\@/") || strings.HasPrefix(line, "-") || len(line) > 2*maxRequirement {
				t.Errorf("%q gives %q", text, line)
			}
		}
	})
}

// TestVenvPackages runs what makes the packages of a virtual environment found by a Python that was not started from there.
func TestVenvPackages(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("this machine has no python3")
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "venv")
	sh := func(script string) string {
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(script, venv, at))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	sh("python3 -m venv --without-pip .venv" + venvPackages)
	sh("echo 'x = 42' > " + venv + "/installed.py")
	if got := sh("PYTHONPATH=" + venv + " python3 -c 'import installed; print(installed.x)'; .venv/bin/python -c 'import installed; print(installed.x)'"); got != "42\n42\n" {
		t.Error(got)
	}
}
