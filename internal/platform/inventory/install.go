package inventory

import (
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

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
	"cmake": "cmake", "ninja": "ninja-build", "mvn": "maven", "gradle": "gradle", "ant": "ant", "bundle": "ruby-bundler", "rake": "rake",
	"composer": "composer", "cc": "gcc", "c++": "g++", "clang": "clang", "wget": "wget", "zip": "zip", "unzip": "unzip", "sqlite3": "sqlite3", "file": "file", "bc": "bc",
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
