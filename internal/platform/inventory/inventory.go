package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// Answer is what a template's programs said.
type Answer struct {
	// Versions are those of tools, by name.
	Versions map[string]string `json:"versions"`
	// Asked are the languages whose libraries are known.
	Asked []api.Language `json:"asked"`
	// Libraries are what is there, in the order of language and name.
	Libraries []Library `json:"libraries"`
	// DebianNode is true if Node finds what Debian's packages bring.
	DebianNode bool `json:"debianNode,omitempty"`
	// Whole is true if everything was asked; what is not there then is missing.
	Whole bool `json:"whole"`
}

// Library is something installed. A Command is not for programs to import: it
// lies where only its own command finds it.
type Library struct {
	Language api.Language `json:"language"`
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	Command  bool         `json:"command,omitempty"`
}

var (
	numbers     = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)
	nameForm    = regexp.MustCompile(`^[0-9A-Za-z@_][0-9A-Za-z._@/-]*$`)
	versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+!_~-]*$`)
)

// Read reads what Script printed. Lines that make no sense are left out: they
// come from a sandbox.
func Read(out []byte) Answer {
	a := Answer{Versions: map[string]string{}}
	if len(out) > MaxOutput {
		out = out[:MaxOutput]
	}
	text := string(out)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 1 && f[0] == "done":
			a.Whole = true
		case line == "debian node\n":
			a.DebianNode = true
		case len(f) == 2 && f[0] == "asked":
			if l := api.Language(f[1]); known(l) && !slices.Contains(a.Asked, l) {
				a.Asked = append(a.Asked, l)
			}
		case len(f) > 2 && f[0] == "tool":
			v := numbers.FindString(strings.Join(f[2:], " "))
			if isTool(f[1]) && v != "" && len(v) <= maxVersion {
				a.Versions[f[1]] = v
			}
		case len(f) == 4 && (f[0] == "library" || f[0] == "command"):
			l := Library{Language: api.Language(f[1]), Name: f[2], Version: f[3], Command: f[0] == "command"}
			if known(l.Language) && len(l.Name) <= maxName && nameForm.MatchString(l.Name) &&
				len(l.Version) <= maxVersion && versionForm.MatchString(l.Version) && len(a.Libraries) < maxLibraries {
				a.Libraries = append(a.Libraries, l)
			}
		}
	}
	slices.SortStableFunc(a.Libraries, func(x, y Library) int {
		if c := strings.Compare(string(x.Language), string(y.Language)); c != 0 {
			return c
		}
		return strings.Compare(x.Name, y.Name)
	})
	return a
}

func known(l api.Language) bool { return l == api.Python || l == api.JavaScript }

func isTool(name string) bool {
	return slices.ContainsFunc(tools, func(t tool) bool { return t.name == name })
}

// find returns a library that is there: one to import, or one for its command.
func (a Answer) find(l api.Language, name string, command bool) (Library, bool) {
	i := slices.IndexFunc(a.Libraries, func(x Library) bool {
		return x.Language == l && (command || !x.Command) && api.SameLibrary(l, x.Name, name)
	})
	if i < 0 {
		return Library{}, false
	}
	return a.Libraries[i], true
}

// Fill adds to a template's report what was answered: versions, the libraries
// that are there, and the common ones that are not. debian reports whether this
// machine's packages are Debian's, whose names the advice then uses.
func (a Answer) Fill(r *api.TemplateReport, debian bool) {
	for i := range r.Tools {
		t := &r.Tools[i]
		if !t.Present {
			t.Install = a.installTool(t.Name, debian)
			continue
		}
		t.Version = a.Versions[t.Name]
		if twin, ok := twins[t.Name]; ok {
			if l, ok := a.find(twin.language, twin.library, true); ok {
				t.Version = l.Version
			}
		}
	}
	for _, c := range common {
		if !slices.Contains(a.Asked, c.language) {
			continue // without the language there is nothing to install it for
		}
		out := api.Library{Language: c.language, Name: c.name, Common: true}
		if l, ok := a.find(c.language, c.name, false); ok {
			out.Present, out.Version = true, l.Version
		} else {
			out.Install = a.installLibrary(c.language, c.name, c.deb, toolPath(r.Tools, c.language), debian)
		}
		r.Libraries = append(r.Libraries, out)
	}
	for _, l := range a.Libraries {
		isCommon := slices.ContainsFunc(r.Libraries, func(x api.Library) bool {
			return x.Language == l.Language && api.SameLibrary(l.Language, x.Name, l.Name)
		})
		if !l.Command && !isCommon {
			r.Libraries = append(r.Libraries, api.Library{Language: l.Language, Name: l.Name, Version: l.Version, Present: true})
		}
	}
	r.Asked = a.Asked
}

// toolPath returns where a language's interpreter lies inside.
func toolPath(tools []api.Tool, l api.Language) string {
	program := map[api.Language]string{api.Python: "python3", api.JavaScript: "node"}[l]
	for _, t := range tools {
		if t.Name == program {
			return t.Path
		}
	}
	return ""
}

func (a Answer) installTool(name string, debian bool) string {
	switch {
	case name == "tsc" && !a.DebianNode:
		return "npm install -g typescript"
	case name == "pnpm", name == "yarn":
		return "npm install -g " + name
	}
	for _, t := range tools {
		if t.name == name && debian && t.deb != "" {
			return "apt-get install " + t.deb
		}
	}
	return ""
}

// installLibrary advises how a library gets to where an interpreter finds it. A
// distribution's packages serve its own interpreter only, and what npm installs
// for all is not found by programs at all.
func (a Answer) installLibrary(l api.Language, name, deb, path string, debian bool) string {
	own := debian && (strings.HasPrefix(path, "/usr/bin/") || strings.HasPrefix(path, "/bin/"))
	switch {
	case l == api.Python && own, l == api.JavaScript && a.DebianNode:
		return "apt-get install " + deb
	case l == api.Python:
		return "python3 -m pip install " + name
	}
	return ""
}

// packages are Debian's packages of libraries that are not listed as common, by the
// library's name. Names that Debian makes by rule are not here.
var packages = map[api.Language]map[string]string{
	api.Python: {
		"pyyaml": "python3-yaml", "pillow": "python3-pil", "opencv-python": "python3-opencv", "scikit-learn": "python3-sklearn",
		"beautifulsoup4": "python3-bs4", "python-dateutil": "python3-dateutil", "flask": "python3-flask", "django": "python3-django",
		"jinja2": "python3-jinja2", "lxml": "python3-lxml", "sympy": "python3-sympy", "networkx": "python3-networkx", "attrs": "python3-attr",
		"click": "python3-click", "rich": "python3-rich", "tqdm": "python3-tqdm", "psutil": "python3-psutil", "hypothesis": "python3-hypothesis",
		"pydantic": "python3-pydantic", "sqlalchemy": "python3-sqlalchemy", "aiohttp": "python3-aiohttp", "httpx": "python3-httpx", "openpyxl": "python3-openpyxl",
	},
	api.JavaScript: {"express": "node-express", "lodash": "node-lodash", "chalk": "node-chalk"},
}

// commands are Debian's packages of commands that are not listed as tools.
var commands = map[string]string{
	"pytest": "python3-pytest", "pytest-3": "python3-pytest", "pip": "python3-pip", "python": "python-is-python3", "npx": "npm", "tox": "tox",
	"ctest": "cmake", "ant": "ant", "rake": "rake",
	"cc": "gcc", "c++": "g++", "clang": "clang", "wget": "wget", "zip": "zip", "unzip": "unzip", "sqlite3": "sqlite3", "file": "file", "bc": "bc",
}

// InstallTool returns the command that brings a program to a Debian machine; empty if it is
// not known.
func InstallTool(name string) string {
	if pkg := commands[name]; pkg != "" {
		return "apt-get install " + pkg
	}
	if i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name && t.deb != "" }); i >= 0 {
		return "apt-get install " + tools[i].deb
	}
	for _, l := range language.All() {
		for _, need := range l.Needs {
			if slices.Contains(strings.Split(need, "|"), name) {
				return "apt-get install " + l.Package
			}
		}
	}
	return ""
}

// InstallLibrary returns the command that brings a library to a Debian machine whose
// interpreter lies at path in sandboxes; empty if it is not known.
func InstallLibrary(l api.Language, name, path string, debianNode bool) string {
	deb := ""
	for _, c := range common {
		if c.language == l && api.SameLibrary(l, c.name, name) {
			deb = c.deb
		}
	}
	for known, pkg := range packages[l] {
		if api.SameLibrary(l, known, name) {
			deb = pkg
		}
	}
	if deb == "" {
		return ""
	}
	return Answer{DebianNode: debianNode}.installLibrary(l, name, deb, path, true)
}

// tool is a program, how it is requested its version, and the Debian package
// that brings it.
type tool struct {
	name string
	ask  string // shell words; its output holds the version
	deb  string
}

var tools = []tool{
	{"bash", "bash --version", "bash"},
	{"python3", "python3 --version", "python3"},
	{"node", "node --version", "nodejs"},
	{"go", "go version", "golang-go"},
	{"gcc", "gcc --version", "gcc"},
	{"g++", "g++ --version", "g++"},
	{"make", "make --version", "make"},
	{"git", "git --version", "git"},
	{"cargo", "cargo --version", "cargo"},
	{"rustc", "rustc --version", "rustc"},
	{"java", "java -version", "default-jdk-headless"},
	{"ruby", "ruby --version", "ruby"},
	{"javac", "", "default-jdk-headless"},
	{"perl", "perl -e 'print $^V'", "perl"},
	{"php", "php --version", "php-cli"},
	{"curl", "curl --version", "curl"},
	{"jq", "jq --version", "jq"},
	// These two take longer to start than what they say is worth: Python and
	// Node tell their versions among the libraries.
	{"pip3", "", "python3-pip"},
	{"npm", "", "npm"},
	{"tsc", "", "node-typescript"},
	{"cmake", "cmake --version", "cmake"},
	{"ninja", "ninja --version", "ninja-build"},
	{"mvn", "mvn --version", "maven"},
	{"gradle", "", "gradle"},
	{"bundle", "bundle --version", "ruby-bundler"},
	{"composer", "", "composer"},
	{"pnpm", "", ""},
	{"yarn", "", ""},
	{"uv", "uv --version", ""},
	{"poetry", "", "python3-poetry"},
}

// common are the libraries that people ask for, listed also where they are
// missing.
var common = []struct {
	language api.Language
	name     string
	deb      string
}{
	{api.Python, "numpy", "python3-numpy"},
	{api.Python, "pandas", "python3-pandas"},
	{api.Python, "matplotlib", "python3-matplotlib"},
	{api.Python, "scipy", "python3-scipy"},
	{api.Python, "pytest", "python3-pytest"},
	{api.Python, "requests", "python3-requests"},
	{api.JavaScript, "typescript", "node-typescript"},
}

// twins are commands that a library brings: what it says of its version holds
// for them.
var twins = map[string]struct {
	language api.Language
	library  string
}{
	"pip3": {api.Python, "pip"},
	"npm":  {api.JavaScript, "npm"},
	"tsc":  {api.JavaScript, "typescript"},
}

// Bounds of what a script may print; more is cut, and what is cut is not known.
const (
	MaxOutput    = 256 << 10 // bytes
	maxLibraries = 2000
	maxName      = 100
	maxVersion   = 64
)

// python prints every distribution that a program can import.
const python = `
import importlib.metadata as m
seen = {}
for d in m.distributions():
    n, v = d.metadata["Name"], d.version
    if n and v: seen.setdefault(n, v)
print("asked python")
for n in sorted(seen)[:2000]: print("library python", n, seen[n])
`

// node prints what a program can require from anywhere, and, as commands, what
// lies beside Node.
const node = `
const fs = require("fs"), path = require("path");
console.log("asked javascript");
if (require("module").globalPaths.includes("/usr/share/nodejs")) console.log("debian node");
const list = (dir, kind) => {
  let names = [];
  try { names = fs.readdirSync(dir) } catch { return }
  for (const n of names) {
    if (n.startsWith("@") && !n.includes("/")) {
      try { names.push(...fs.readdirSync(path.join(dir, n)).map(s => n + "/" + s)) } catch {}
      continue;
    }
    try { console.log(kind, "javascript", n, JSON.parse(fs.readFileSync(path.join(dir, n, "package.json"))).version) } catch {}
  }
};
for (const dir of require("module").globalPaths) list(dir, "library");
const beside = path.join(fs.realpathSync(process.execPath), "..", "..");
for (const dir of ["lib/node_modules", "local/lib/node_modules"]) list(path.join(beside, dir), "command");
`

// Script is the shell script that asks. It needs a place for temporary files,
// reads nothing, and takes as long as the slowest program in it; its last line
// is "done".
func Script() string {
	var b strings.Builder
	b.WriteString("exec </dev/null\nd=$(mktemp -d) || exit 1\n")
	// One short write for each answer, so that answers do not mix.
	b.WriteString(`ask() { n=$1; shift; command -v "$1" >/dev/null || return; ` +
		`v=$("$@" 2>&1 | head -c 300 | tr '\n\r' '  '); printf 'tool %s %s\n' "$n" "$v"; }` + "\n")
	for _, t := range tools {
		if t.ask != "" {
			fmt.Fprintf(&b, "ask %s %s &\n", t.name, t.ask)
		}
	}
	fmt.Fprintf(&b, "python3 -I -c %s >\"$d/python\" 2>/dev/null &\n", quote(python))
	fmt.Fprintf(&b, "node -e %s >\"$d/node\" 2>/dev/null &\n", quote(node))
	b.WriteString("wait\ncat \"$d/python\" \"$d/node\"\nrm -r \"$d\"\necho done\n")
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
