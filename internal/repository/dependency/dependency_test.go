package dependency

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

func tree(files map[string]string) Tree {
	return Tree{Paths: slices.Sorted(maps.Keys(files)), Read: func(p string) []byte { return []byte(files[p]) }}
}

func names(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.Name)
	}
	return strings.Join(out, ", ")
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		steps   string
		presets string
		note    string
		warning string
	}{
		{name: "nothing", files: map[string]string{"README.md": "x"}},
		{name: "npm", files: map[string]string{"package.json": "{}", "package-lock.json": "{}"}, steps: "npm ci", presets: "npm"},
		{name: "npm without a lock file", files: map[string]string{"package.json": `{"dependencies":{"a":"1"}}`}, steps: "npm install", presets: "npm", warning: "package.json has no lock file: npm installs the newest"},
		{name: "npm without a lock file, for tests", files: map[string]string{"package.json": `{"devDependencies":{"mocha":"10"}}`}, steps: "npm install", presets: "npm", warning: "npm installs the newest"},
		{name: "npm with scripts only", files: map[string]string{"package.json": `{"scripts":{"test":"node --test"},"devDependencies":{}}`}},
		{name: "a manifest that is no JSON", files: map[string]string{"package.json": `{"dependencies":{"a":`}},
		{name: "dependencies that are no map", files: map[string]string{"package.json": `{"dependencies":["a"]}`}},
		{name: "workspaces without a lock file", files: map[string]string{"package.json": `{"workspaces":["a"]}`, "a/package.json": `{"dependencies":{"x":"1"}}`}, steps: "npm install", presets: "npm", warning: "package.json has no lock file"},
		{name: "examples without a lock file", files: map[string]string{"examples/web/package.json": `{"dependencies":{"a":"1"}}`, "docs/requirements.txt": "sphinx\n"}, note: "docs/requirements.txt has no lock file"},
		{name: "pnpm without a lock file", files: map[string]string{"package.json": `{"packageManager":"pnpm@10.1.0","dependencies":{"a":"1"}}`}, steps: "npm install pnpm@10.1.0, pnpm install", presets: "npm", warning: "pnpm installs the newest"},
		{name: "yarn 1 without a lock file", files: map[string]string{"package.json": `{"packageManager":"yarn@1.22.22","dependencies":{"a":"1"}}`}, steps: "npm install yarn@1.22.22, yarn install", presets: "npm", warning: "yarn installs the newest"},
		{name: "yarn 4 without a lock file", files: map[string]string{"package.json": `{"packageManager":"yarn@4.9.2","dependencies":{"a":"1"}}`}, steps: "npm install", presets: "npm", warning: "npm installs the newest"},
		{name: "a package manager with a shell's characters", files: map[string]string{"package.json": `{"packageManager":"pnpm@10.1.0;id"}`, "pnpm-lock.yaml": ""}, steps: "npm install pnpm@10, pnpm install", presets: "npm", warning: "packageManager of package.json is not pnpm or yarn"},
		{name: "pnpm 8", files: map[string]string{"pnpm-lock.yaml": "lockfileVersion: '6.0'\n"}, steps: "npm install pnpm@8, pnpm install", presets: "npm"},
		{name: "pnpm 9 and later", files: map[string]string{"pnpm-lock.yaml": "lockfileVersion: '9.0'\n"}, steps: "npm install pnpm@10, pnpm install", presets: "npm"},
		{name: "yarn 3", files: map[string]string{"yarn.lock": "# x\n\n__metadata:\n  version: 6\n"}, steps: "npm install @yarnpkg/cli-dist@3, yarn install", presets: "npm"},
		{name: "yarn 4", files: map[string]string{"yarn.lock": "# x\n\n__metadata:\n  version: 8\n"}, steps: "npm install @yarnpkg/cli-dist@4, yarn install", presets: "npm"},
		{name: "yarn of the repository", files: map[string]string{"yarn.lock": "# x\n\n__metadata:\n  version: 8\n", ".yarnrc.yml": "yarnPath: .yarn/y.cjs\n", "package.json": `{"packageManager":"yarn@4.10.0"}`}, steps: "npm install @yarnpkg/cli-dist@4, yarn install", presets: "npm"},
		{name: "a manager that cannot read the lock file", files: map[string]string{"yarn.lock": "# yarn lockfile v1\n", "package.json": `{"packageManager":"yarn@4.9.2"}`}, steps: "npm install yarn@1.22, yarn install", presets: "npm"},
		{name: "pnpm before npm", files: map[string]string{"package.json": "{}", "package-lock.json": "{}", "pnpm-lock.yaml": ""}, steps: "npm install pnpm@10, pnpm install", presets: "npm"},
		{name: "yarn", files: map[string]string{"yarn.lock": "# yarn lockfile v1\n"}, steps: "npm install yarn@1.22, yarn install", presets: "npm"},
		{name: "pip", files: map[string]string{"requirements.txt": "a==1 # comment\n-r more.txt\n", "more.txt": "b==2 \\\n  --hash=sha256:00\n"}, steps: "pip install", presets: "pip"},
		{name: "pip without pins", files: map[string]string{"requirements.txt": "a>=1\n"}, steps: "pip install", presets: "pip", warning: "requirements.txt has no lock file: pip installs the newest"},
		{name: "pip outside", files: map[string]string{"requirements.txt": "-r ../../etc/passwd\n"}, note: "includes a file that is not in the repository"},
		{name: "pip of a host", files: map[string]string{"requirements.txt": "-r https://a.example.org/x\n"}, note: "includes a file that is not in the repository"},
		{name: "uv before requirements", files: map[string]string{"uv.lock": "", "requirements.txt": "a==1"}, steps: "pip install uv, uv sync", presets: "pip"},
		{name: "poetry", files: map[string]string{"poetry.lock": ""}, steps: "pip install poetry, poetry install", presets: "pip"},
		{name: "go", files: map[string]string{"go.mod": "module a\nrequire b v1.0.0\n", "go.sum": ""}, steps: "go mod download, go test -exec true ./...", presets: "go"},
		{name: "go without modules", files: map[string]string{"go.mod": "module a\n"}, steps: "go test -exec true ./..."},
		{name: "go with a vendor directory", files: map[string]string{"go.mod": "module a\nrequire b v1\n", "vendor/modules.txt": ""}, steps: "go test -exec true ./..."},
		{name: "cargo", files: map[string]string{"Cargo.lock": ""}, steps: "cargo fetch --locked"},
		{name: "bundler", files: map[string]string{"Gemfile.lock": ""}, steps: "bundle install"},
		{name: "bundler without a lock file", files: map[string]string{"Gemfile": "", "docs/Gemfile": ""}, steps: "bundle install", note: "docs/Gemfile has no lock file and is in a directory docs", warning: "Gemfile has no lock file: bundler installs the newest"},
		{name: "bundler with both", files: map[string]string{"Gemfile": "", "Gemfile.lock": ""}, steps: "bundle install"},
		{name: "composer", files: map[string]string{"composer.lock": "{}"}, steps: "composer install"},
		{name: "maven, once for all modules", files: map[string]string{"pom.xml": "", "core/pom.xml": ""}, steps: "mvn dependency:go-offline"},
		{name: "several", files: map[string]string{"web/package-lock.json": "{}", "api/go.mod": "module a\nrequire (\n", "api/go.sum": "", "requirements.txt": "a==1"},
			steps: "pip install, go mod download in api, go test -exec true ./... in api, npm ci in web", presets: "go npm pip"},
		{name: "workspaces", files: map[string]string{"package.json": `{"workspaces":["a"]}`, "package-lock.json": "{}", "a/package.json": `{"dependencies":{"x":"1"}}`}, steps: "npm ci", presets: "npm"},
		{name: "not of the project", files: map[string]string{"node_modules/a/package-lock.json": "{}", "testdata/go.mod": "module a", ".cache/Cargo.lock": "", "a/b/c/d/e/f/g/Cargo.lock": "", "x\ny/Cargo.lock": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Of(tree(c.files))
			if err != nil {
				t.Fatal(err)
			}
			if got := names(p); got != c.steps {
				t.Errorf("steps %q, want %q", got, c.steps)
			}
			if got := strings.Join(p.Presets, " "); got != c.presets {
				t.Errorf("presets %q, want %q", got, c.presets)
			}
			if got := strings.Join(p.Notes, "; "); !strings.Contains(got, c.note) || c.note == "" && got != "" {
				t.Errorf("notes %q, want %q", got, c.note)
			}
			if got := strings.Join(p.Warnings, "; "); !strings.Contains(got, c.warning) || c.warning == "" && got != "" {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

// TestGoTests: the packages of Go are compiled as the tests of the gate need them, and what was compiled otherwise is another result.
func TestGoTests(t *testing.T) {
	of := func(tests ...string) Plan {
		in := tree(map[string]string{"go.mod": "module a\n", "b/go.mod": "module b\n"})
		in.GoTests = tests
		return Detect(in)
	}
	if got, want := names(of("go test -race", "CGO_ENABLED=0 go test")), "go test -race -exec true ./..., CGO_ENABLED=0 go test -exec true ./..., "+
		"go test -race -exec true ./... in b, CGO_ENABLED=0 go test -exec true ./... in b"; got != want {
		t.Errorf("steps %q, want %q", got, want)
	}
	key := func(p Plan) string { return p.Key("ada", "https://git.example.org/a", "main", "host-1") }
	if key(of("go test -race")) == key(of()) {
		t.Error("the same key for what is compiled in another way")
	}
	if key(of("go test")) != key(of()) {
		t.Error("another key for what is compiled without flags")
	}
}

// TestKey: only what decides what is installed is in the key, and the account and the toolchain.
func TestKey(t *testing.T) {
	base := map[string]string{
		"package.json": `{"dependencies":{"a":"1"},"scripts":{"test":"x"},"version":"1"}`, "package-lock.json": "{}",
		"go.mod": "module a\nrequire b v1\n", "go.sum": "b", "main.go": "package main", "README.md": "x",
	}
	key := func(change map[string]string) string {
		files := maps.Clone(base)
		maps.Copy(files, change)
		p, err := Of(tree(files))
		if err != nil {
			t.Fatal(err)
		}
		return p.Key("ada", "https://git.example.org/a", "main", "host-1")
	}
	was := key(nil)
	for name, c := range map[string]struct {
		change map[string]string
		same   bool
	}{
		"source":                         {map[string]string{"main.go": "package other", "new.go": "x"}, true},
		"a test script":                  {map[string]string{"package.json": `{"scripts":{"test":"y"},"dependencies":{"a":"1"},"version":"2"}`}, true},
		"a dependency":                   {map[string]string{"package.json": `{"scripts":{"test":"x"},"dependencies":{"a":"2"}}`}, false},
		"a script of npm's own":          {map[string]string{"package.json": `{"scripts":{"test":"x","postinstall":"y"},"dependencies":{"a":"1"}}`}, false},
		"a lock file":                    {map[string]string{"package-lock.json": "{ }"}, false},
		"go.sum":                         {map[string]string{"go.sum": "c"}, false},
		"a manifest without a lock file": {map[string]string{"web/package.json": `{"dependencies":{"a":"1"}}`}, false},
		"a new project":                  {map[string]string{"web/package-lock.json": "{}"}, false},
	} {
		if got := key(c.change) == was; got != c.same {
			t.Errorf("%s: the same key: %t, want %t", name, got, c.same)
		}
	}
	p := Detect(tree(base))
	for name, other := range map[string]string{
		"account":    p.Key("bob", "https://git.example.org/a", "main", "host-1"),
		"repository": p.Key("ada", "https://git.example.org/b", "main", "host-1"),
		"branch":     p.Key("ada", "https://git.example.org/a", "feature", "host-1"),
		"toolchain":  p.Key("ada", "https://git.example.org/a", "main", "host-2"),
	} {
		if other == was {
			t.Errorf("another %s has the same key", name)
		}
	}
}

// TestCode: if a step runs code of the repository, the whole tree decides.
func TestCode(t *testing.T) {
	lock := func(manifest string, more ...string) map[string]string {
		files := map[string]string{"package-lock.json": "{}", "package.json": manifest}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		code  bool
	}{
		"npm":                            {lock(`{"dependencies":{"a":"^1"},"scripts":{"test":"node t.js"}}`), false},
		"npm with a registry":            {lock(`{}`, ".npmrc", "# ours\nregistry=https://npm.example.org/\n@team:registry = https://npm.example.org/\nfund=false\n"), false},
		"a script":                       {lock(`{"scripts":{"prepare":"husky"}}`), true},
		"a script of a member":           {lock(`{"workspaces":["web"]}`, "web/package.json", `{"scripts":{"postinstall":"node x.js"}}`), true},
		"a package in the tree":          {lock(`{"dependencies":{"a":"file:./a"}}`), true},
		"one by its path":                {lock(`{"devDependencies":{"a":"../a"}}`), true},
		"a range with a tilde":           {lock(`{"dependencies":{"a":"~1.2.0"},"overrides":{"a":"~1.2.0","b":{"c":"npm:c@2"}}}`), false},
		"an archive":                     {lock(`{"dependencies":{"a":"a-1.0.0.tgz"}}`), true},
		"an override":                    {lock(`{"overrides":{"a":{"b":"file:./b"}}}`), true},
		"a patch":                        {lock(`{"resolutions":{"a":"patch:a@npm:1#./a.patch"}}`), true},
		"versions that are not texts":    {lock(`{"dependencies":{"a":["file:a"]}}`), true},
		"an addon":                       {lock(`{}`, "binding.gyp", "{}"), true},
		"options of node":                {lock(`{}`, ".npmrc", "node-options=--require ./x.js\n"), true},
		"a shell for scripts":            {lock(`{}`, ".npmrc", "fund=false\n script-shell = ./sh\n"), true},
		"options of a registry":          {lock(`{}`, ".npmrc", "//npm.example.org/:_authToken=x\n"), true},
		"pnpm's hooks":                   {map[string]string{"pnpm-lock.yaml": "", "package.json": "{}", ".pnpmfile.cjs": "x"}, true},
		"pnpm":                           {map[string]string{"pnpm-lock.yaml": "", "package.json": "{}", "pnpm-workspace.yaml": "packages:\n  - 'web'\n"}, false},
		"yarn of the repository":         {map[string]string{"yarn.lock": "", "package.json": "{}", ".yarnrc.yml": "nodeLinker: node-modules\nyarnPath: .yarn/releases/yarn.cjs\n"}, true},
		"yarn":                           {map[string]string{"yarn.lock": "", "package.json": "{}", ".yarnrc.yml": "nodeLinker: node-modules\n"}, false},
		"pip":                            {map[string]string{"requirements.txt": "a==1 # pinned\n-r more.txt\n", "more.txt": "b==2 \\\n  --hash=sha256:aa\n"}, false},
		"npm without a lock file":        {map[string]string{"package.json": `{"dependencies":{"a":"^1"}}`}, false},
		"a script without a lock file":   {map[string]string{"package.json": `{"dependencies":{"a":"^1"},"scripts":{"prepare":"node x.js"}}`}, true},
		"pyproject.toml":                 {map[string]string{"pyproject.toml": "[project]\nname = 'a'\ndependencies = ['b']\n", "src/a.py": ""}, false},
		"setup.py, which is not run":     {map[string]string{"setup.py": "setup(install_requires=['b'])\n"}, false},
		"wheels of the repository":       {map[string]string{"requirements.txt": "a==1\n--find-links wheels\n"}, true},
		"wheels in an included file":     {map[string]string{"requirements.txt": "a==1\n-r more.txt\n", "more.txt": "-f wheels\nb==1\n"}, true},
		"a path, which is left out":      {map[string]string{"requirements.txt": "a @ file:///workspace/a#x==1\n./b\nc==1\n"}, false},
		"uv":                             {map[string]string{"uv.lock": "", "pyproject.toml": "[project]\nname = 'a'\n"}, false},
		"uv with a workspace":            {map[string]string{"uv.lock": "", "pyproject.toml": "[tool.uv.workspace]\nmembers = ['b']\n"}, true},
		"poetry with a path":             {map[string]string{"poetry.lock": "", "pyproject.toml": "b = { path = '../b' }\n"}, true},
		"go, whose tests are not run":    {map[string]string{"go.mod": "module a\n", "a_test.go": "package a"}, false},
		"cargo, which fetches only":      {map[string]string{"Cargo.lock": "", "build.rs": "x"}, false},
		"a Gemfile, which is a program":  {map[string]string{"Gemfile.lock": "", "Gemfile": "x"}, true},
		"maven":                          {map[string]string{"pom.xml": "<project/>"}, false},
		"maven's extensions":             {map[string]string{"pom.xml": "<project/>", ".mvn/extensions.xml": "x"}, true},
		"a recipe":                       {map[string]string{RecipePath: "steps:\n  - run: make\n"}, true},
		"a recipe that says what counts": {map[string]string{RecipePath: "steps:\n  - run: make deps\ninputs: [Makefile]\n", "Makefile": "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := tree(c.files), tree(c.files)
			one.Digest, two.Digest = "one", "two"
			p, err := Of(one)
			if err != nil {
				t.Fatal(err)
			}
			other, err := Of(two)
			if err != nil {
				t.Fatal(err)
			}
			a, b := p.Key("ada", "r", "main", "tools"), other.Key("ada", "r", "main", "tools")
			if len(p.Code) > 0 != c.code || a == b == c.code || !SameInputs(a, b) {
				t.Errorf("%q, keys %s and %s", p.Code, a, b)
			}
			p, other = p.In("lib"), other.In("lib")
			if a, b := p.Key("ada", "r", "main", "tools"), other.Key("ada", "r", "main", "tools"); a == b == c.code {
				t.Errorf("one of several: keys %s and %s", a, b)
			}
		})
	}
}

const recipe = `# comment
steps:
  - name: install
    run: npm ci
    dir: web
    timeout: 10m
    retries: 2
  - run: |
      make deps
      make more
    optional: true
services:
  - name: redis
    run: redis-server --port 6379
    ready: redis-cli ping
verify: npm test -- --version
warm-up: npm run build
egress: [pip, npm, npm]
`

func TestRecipe(t *testing.T) {
	p, err := Of(tree(map[string]string{RecipePath: recipe, "go.mod": "module a"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(p); !p.Recipe || got != "install, make deps..., warm-up, verify" {
		t.Errorf("steps %q", got)
	}
	if s := p.Steps[0]; s.Dir != "web" || s.Timeout.Minutes() != 10 || s.Retries != 2 || s.Optional || !p.Steps[1].Optional || !p.Steps[2].Optional || p.Steps[3].Optional {
		t.Errorf("%+v", p.Steps)
	}
	if got := strings.Join(p.Presets, " "); got != "npm pip" {
		t.Errorf("presets %q", got)
	}
	if len(p.Services) != 1 || p.Services[0].Ready != "redis-cli ping" || p.Env["GOCACHE"] == "" {
		t.Errorf("%+v %v", p.Services, p.Env)
	}
}

func TestRecipeRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "it is empty",
		"steps: []\n":                           "it has no steps",
		"- a\n":                                 "line 1: expected names with values",
		"steps:\n  - run: a\nx:":                `line 3: unknown field "x"`,
		"steps:\n  - run: a\n    timeout: 5\n":  "line 3: timeout must be a duration",
		"steps:\n  - run: a\n    timeout: 9h\n": "line 3: timeout must be above 0",
		"steps:\n  - run: a\n    retries: 99\n": "line 3: retries must be a number",
		"steps:\n  - run: a\n    optional: maybe\n":    "line 3: optional must be",
		"steps:\n  - name: a\n":                        "line 2: the step has no run",
		"steps:\n  - run: [a]\n":                       "line 2: run must be text",
		"steps:\n  - run: a\n    dir: ../x\n":          "line 3: dir must be",
		"steps:\n  - run: a\n    dir: /etc\n":          "line 3: dir must be",
		"steps:\n  - run: a\n    dir: .git/hooks\n":    "line 3: dir must be",
		"steps:\n  - run: a\n    run: b\n":             `line 3: field "run" appears twice`,
		"steps:\n  - &x {run: a}\n  - *x\n":            "anchors and aliases are not allowed",
		"steps: [{run: a}]\negress: [a.example.org]\n": "line 2: \"a.example.org\" is not the name of a preset",
		"steps: [{run: a}]\negress: ['*']\n":           "line 2: \"*\" is not the name of a preset",
		"steps: [{run: a}]\ninputs: [../x]\n":          "line 2: an input must be",
		"steps: [{run: a}]\ninputs: [none]\n":          "line 2: the repository has no file",
		"steps: [{run: a}]\n---\nsteps: []\n":          "it must have one document",
		"steps: {\n":                                   "line ",
		strings.Repeat("#", maxRecipe+1):               "more than 65536 bytes",
	} {
		_, err := Of(tree(map[string]string{RecipePath: text}))
		if err == nil || api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRecipe(f *testing.F) {
	f.Add(recipe)
	f.Add("steps: [{run: a, dir: ..}]")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Of(tree(map[string]string{RecipePath: text}))
		if err != nil {
			return
		}
		if p.Empty() || len(p.Steps) > maxSteps+2 || len(p.Services) > maxServices {
			t.Errorf("%+v", p)
		}
		for _, s := range p.Steps {
			if s.Run == "" || s.Name == "" || !local(s.Dir) || s.Timeout <= 0 || s.Timeout > maxTimeout || s.Retries > maxRetries || strings.ContainsAny(s.Name, "\n\x1b") {
				t.Errorf("%+v", s)
			}
		}
		for _, name := range p.Presets {
			if strings.ContainsAny(name, ".*/:") {
				t.Errorf("preset %q", name)
			}
		}
	})
}

// FuzzDetect gives every tool hostile files in a hostile directory.
func FuzzDetect(f *testing.F) {
	f.Add("web", `{"workspaces":["a"],"scripts":{"install":1}}`)
	f.Add("..", "-r ../x\n-r requirements.txt\n")
	f.Add("a\x00b", "require (\n")
	f.Fuzz(func(t *testing.T, dir, text string) {
		files := map[string]string{}
		for _, tool := range tools() {
			files[dir+"/"+tool.lock] = text
			files[tool.lock] = text
		}
		p := Detect(tree(files))
		if len(p.Steps) > 2*maxProjects*6 || len(p.Notes) > maxNotes {
			t.Errorf("%d steps, %d notes", len(p.Steps), len(p.Notes))
		}
		for _, s := range p.Steps {
			if dir != "." && dir != "" && strings.Contains(s.Run, dir) && len(dir) > 20 {
				t.Errorf("the command has the repository's text: %q", s.Run)
			}
			if !searched(s.Dir) {
				t.Errorf("dir %q", s.Dir)
			}
		}
		if p.Key("a", "b", "main", "c") != Detect(tree(files)).Key("a", "b", "main", "c") {
			t.Error("two keys")
		}
	})
}
