package dependency

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
)

func (d *detector) npm(dir string) {
	lock := "npm-shrinkwrap.json"
	if d.has(path.Join(dir, "package-lock.json")) {
		lock = "package-lock.json"
	}
	d.node(dir, ".npmrc")
	d.plan.Env["npm_config_cache"] = Cache + "/npm"
	d.add(path.Join(dir, lock), "npm", install("npm ci", []string{path.Join(dir, "node_modules"), Cache + "/npm"}, "npm"))
}

func (d *detector) pnpm(dir string) {
	d.node(dir, ".npmrc", "pnpm-workspace.yaml", ".pnpmfile.cjs")
	s := install("pnpm install --frozen-lockfile --store-dir /tmp/pnpm --package-import-method copy", []string{path.Join(dir, "node_modules")}, "pnpm")
	s.Name = "pnpm install"
	d.add(path.Join(dir, "pnpm-lock.yaml"), "npm", s)
}

func (d *detector) yarn(dir string) {
	p := path.Join(dir, "yarn.lock")
	d.node(dir, ".npmrc", ".yarnrc", ".yarnrc.yml")
	s := install("yarn install --frozen-lockfile --non-interactive --cache-folder /tmp/yarn", []string{path.Join(dir, "node_modules")}, "yarn")
	if bytes.Contains(d.Read(p), []byte("\n__metadata:")) { // yarn 2 and later
		s.Run = "YARN_ENABLE_GLOBAL_CACHE=false yarn install --immutable"
		s.Results = append(s.Results, path.Join(dir, ".yarn"), path.Join(dir, ".pnp.cjs"))
	}
	s.Name = "yarn install"
	d.add(p, "npm", s)
}

// node adds what the package managers of Node have in common. Their workspaces are projects below.
func (d *detector) node(dir string, files ...string) {
	d.manifest(dir)
	d.input(dir, files...)
	d.input(dir, ".node-version", ".nvmrc")
	for _, name := range files {
		if p := path.Join(dir, name); d.has(p) && !plainSettings(name, d.Read(p)) {
			d.runs("what %s names", p)
		}
	}
	d.below["node"] = append(d.below["node"], d.members(dir)...)
}

// plainSettings reports whether a file of settings names no code of the repository. Only what is known to name none passes.
func plainSettings(name string, text []byte) bool {
	plain := []string{
		"registry", "save-exact", "save-prefix", "engine-strict", "legacy-peer-deps", "fund", "audit", "loglevel", "package-lock", "update-notifier",
		"strict-peer-dependencies", "auto-install-peers", "shamefully-hoist", "public-hoist-pattern", "node-linker", "ignore-scripts", "prefer-workspace-packages", "link-workspace-packages", "save-workspace-protocol",
		"packages", "nodeLinker", "enableTelemetry", "enableGlobalCache", "compressionLevel", "nmMode", "npmRegistryServer",
	}
	if path.Ext(name) == ".cjs" {
		return false
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "- ") {
			continue
		}
		if name, _, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "@") && strings.HasSuffix(strings.TrimSpace(name), ":registry") {
			continue
		}
		end := strings.IndexAny(line, "=: ")
		if end < 0 || !slices.Contains(plain, strings.TrimSuffix(line[:end], "[]")) {
			return false
		}
	}
	return true
}

// members returns the directory itself if its package.json has workspaces: they are installed with it.
func (d *detector) members(dir string) []string {
	var pkg struct {
		Workspaces json.RawMessage `json:"workspaces"`
	}
	if json.Unmarshal(d.Read(path.Join(dir, "package.json")), &pkg) == nil && len(pkg.Workspaces) > 0 || d.has(path.Join(dir, "pnpm-workspace.yaml")) {
		// The manifests of its members decide too.
		n := 0
		for _, p := range d.Paths {
			if path.Base(p) == "package.json" && searched(path.Dir(p)) && (dir == "." || strings.HasPrefix(p, dir+"/")) {
				d.manifest(path.Dir(p))
				if n++; n == maxMembers {
					break
				}
			}
		}
		return []string{dir}
	}
	return nil
}

func (d *detector) unlockedNode(dir string) {
	var pkg struct {
		Dependencies    map[string]json.RawMessage `json:"dependencies"`
		DevDependencies map[string]json.RawMessage `json:"devDependencies"`
	}
	p := path.Join(dir, "package.json")
	if json.Unmarshal(d.Read(p), &pkg) == nil && len(pkg.Dependencies)+len(pkg.DevDependencies) > 0 {
		d.note("%s has dependencies and no lock file, so they are not installed: commit a package-lock.json, or write %s", p, RecipePath)
	}
}

// pip installs next to the repository: the sandbox's own Python may be read-only.
func (d *detector) pip(dir string) {
	p := path.Join(dir, "requirements.txt")
	files, why := d.pinned(p)
	switch {
	case why == empty:
		return
	case why != "":
		d.note("%s is not installed, because %s: pin every version with ==, or write %s", p, why, RecipePath)
		return
	}
	for _, f := range files {
		d.input(".", f)
	}
	d.plan.Env["PYTHONPATH"] = python
	d.plan.Env["PIP_CACHE_DIR"] = Cache + "/pip"
	s := install("python3 -m pip install --target "+python+" --upgrade -r requirements.txt", []string{python, Cache + "/pip"}, "python3")
	s.Name = "pip install"
	for _, f := range files {
		if options(d.Read(f)) {
			d.runs("packages of the repository that %s may name", f)
		}
	}
	d.add(p, "pip", s)
}

func (d *detector) uv(dir string) {
	s := install("uv sync --frozen --no-install-project", []string{path.Join(dir, ".venv")}, "uv")
	s.Name = "uv sync"
	d.input(dir, ".python-version", "pyproject.toml", "uv.toml")
	d.pyproject(dir)
	d.add(path.Join(dir, "uv.lock"), "pip", s)
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
	s := install("POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-root --no-interaction", []string{path.Join(dir, ".venv")}, "poetry")
	s.Name = "poetry install"
	d.input(dir, "poetry.toml")
	d.pyproject(dir)
	d.add(path.Join(dir, "poetry.lock"), "pip", s)
}

// golang downloads the modules and compiles everything, tests too, so that a gate compiles what changed. It runs nothing of
// it: a test's program is given to the program true. The code may well not compile: that is what a task repairs.
func (d *detector) golang(dir string) {
	p := path.Join(dir, "go.mod")
	d.input(dir, "go.sum", "go.work", "go.work.sum")
	d.plan.Env["GOMODCACHE"] = Cache + "/go/mod"
	d.plan.Env["GOCACHE"] = Cache + "/go/build"
	build := Step{
		Name: "go test -exec true ./...", Run: "go test -exec true ./...", Timeout: buildTimeout, Needs: []string{"go", "true"}, Optional: true, Offline: true,
		Results: []string{Cache + "/go/build"},
	}
	if !requires(d.Read(p)) || d.has(path.Join(dir, "vendor/modules.txt")) {
		d.add(p, "", build)
		return
	}
	d.add(p, "go", install("go mod download", []string{Cache + "/go/mod"}, "go"), build)
}

// requires reports whether a go.mod has a require directive.
func requires(mod []byte) bool {
	for line := range bytes.Lines(mod) {
		if word, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" ")); string(word) == "require" || string(word) == "require(" {
			return true
		}
	}
	return false
}

func (d *detector) cargo(dir string) {
	d.input(dir, "rust-toolchain", "rust-toolchain.toml")
	d.plan.Env["CARGO_HOME"] = Cache + "/cargo"
	s := install("cargo fetch --locked", []string{Cache + "/cargo"}, "cargo")
	d.add(path.Join(dir, "Cargo.lock"), "", s)
}

func (d *detector) bundler(dir string) {
	d.input(dir, "Gemfile", ".ruby-version")
	d.runs("%s", path.Join(dir, "Gemfile")) // it is a program, and can load others
	d.plan.Env["BUNDLE_PATH"] = Cache + "/bundle"
	s := install("BUNDLE_FROZEN=true bundle install", []string{Cache + "/bundle"}, "bundle")
	s.Name = "bundle install"
	d.add(path.Join(dir, "Gemfile.lock"), "", s)
}

// maven resolves a project with its modules.
func (d *detector) maven(dir string) {
	d.below["java"] = append(d.below["java"], dir)
	n := 0
	for _, p := range d.Paths {
		if path.Base(p) == "pom.xml" && searched(path.Dir(p)) && (dir == "." || strings.HasPrefix(p, dir+"/")) {
			d.input(path.Dir(p), "pom.xml")
			if n++; n == maxMembers {
				break
			}
		}
	}
	for _, p := range d.Paths {
		if below := strings.TrimPrefix(p, strings.TrimPrefix(dir+"/", "./")); strings.HasPrefix(below, ".mvn/") {
			d.input(path.Dir(p), path.Base(p))
			d.runs("what %s names", path.Join(dir, ".mvn"))
		}
	}
	const repository = "-Dmaven.repo.local=" + Cache + "/maven"
	d.plan.Env["MAVEN_OPTS"] = repository
	s := install("mvn -B -q dependency:go-offline", []string{Cache + "/maven"}, "mvn")
	s.Name = "mvn dependency:go-offline"
	d.add(path.Join(dir, "pom.xml"), "", s)
}
