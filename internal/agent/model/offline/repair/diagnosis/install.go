package diagnosis

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// The commands that install packages. Where each installs to, and from where, is set by what
// runs them.
const (
	pipInstall = "python3 -m pip install"
	npmInstall = "npm install"
	goInstall  = "{ test -e go.mod || go mod init program; } && go get ."
)

// maxPackage is the maximum length of the name of a package that is installed, in bytes.
const maxPackage = 80

var (
	reInstalls  = lazyregexp.New(`(?:pip3? install|npm (?:install|i|add))((?: +[^&|;\s]+)+)`)
	rePyPackage = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.-]*$`)
	reJSPackage = lazyregexp.New(`^(?:@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$`)
	reGoPackage = lazyregexp.New(`(?m)(?:no required module provides package |cannot find package "?)([A-Za-z0-9][\w-]*(?:\.[\w-]+)+(?:/[\w.~-]+)*)`)
	reGoNamed   = lazyregexp.New(`(?m)(?:is not in std|cannot find package "(?:[\w-]+/)*[\w-]+")`)
)

// installed lists what the install command of an artifact installs.
func installed(a api.CodeArtifact) (out []string) {
	for _, m := range reInstalls.FindAllStringSubmatch(a.Install, -1) {
		for _, word := range strings.Fields(m[1]) {
			if !strings.HasPrefix(word, "-") {
				out = append(out, word)
			}
		}
	}
	return out
}

// installing returns the artifact with a package that its install command installs too. It is
// false if the command does so already, or if a command installs from a list.
func (f *failure) installing(command, pkg string) (api.CodeArtifact, bool) {
	a := f.req.Artifact
	if slices.Contains(installed(a), pkg) || len(pkg) > maxPackage {
		return a, false
	}
	switch {
	case a.Install == "":
		a.Install = command + " " + pkg
	case strings.HasPrefix(a.Install, command+" ") && !strings.ContainsAny(a.Install[len(command):], "&|;<>-\n"):
		a.Install += " " + pkg
	default:
		a.Install += " && " + command + " " + pkg
	}
	return a, true
}

// uninstalled is what is known of a module that could not be installed, and the question.
func (f *failure) uninstalled(name string) (cause, question string) {
	cause = "the module " + name + " is not in the sandbox and could not be installed there"
	if res := f.req.Result; res.Phase == api.PhaseInstall && res.Detail != "" {
		cause = res.Detail
	}
	return cause, "Which package has " + name + ", or should the program do without it?"
}

// ownFile reports whether a module may be one of the program's own.
func (f *failure) ownFile(module string) bool {
	return slices.ContainsFunc(f.req.Artifact.Files, func(file api.File) bool {
		first, _, _ := strings.Cut(file.Path, "/")
		return first == module || strings.TrimSuffix(path.Base(file.Path), path.Ext(file.Path)) == module
	})
}

// scriptPackage is for a package that a program of JavaScript or TypeScript imports and that
// is not there.
func scriptPackage(f *failure) ([]Correction, string, string) {
	m := reJSModule.FindStringSubmatch(f.stderr)
	if m == nil {
		return nil, "", ""
	}
	pkg := m[1]
	if parts := strings.SplitN(pkg, "/", 3); strings.HasPrefix(pkg, "@") && len(parts) > 1 {
		pkg = parts[0] + "/" + parts[1]
	} else {
		pkg = parts[0]
	}
	cause, question := f.uninstalled(pkg)
	builtin := slices.Contains(strings.Fields(jsModules), pkg)
	if builtin || !reJSPackage.MatchString(pkg) || f.ownFile(pkg) {
		return nil, cause, question
	}
	if a, ok := f.installing(npmInstall, pkg); ok {
		return []Correction{{"the module " + pkg + " is not in the sandbox; it has to be installed", a}}, cause, question
	}
	return nil, cause, question
}

// scriptPackages are packages whose names are close to those of Node's own modules.
const scriptPackages = "crypto-js ms next qs query-string vm2 ws"

// goPackage is for packages that a program of Go imports and that no module provides.
func goPackage(f *failure) ([]Correction, string, string) {
	var names []string
	for _, m := range reGoPackage.FindAllStringSubmatch(f.stderr, 40) {
		if !slices.Contains(names, m[1]) && len(m[1]) <= 2*maxPackage {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 {
		return nil, "", ""
	}
	what := strings.Join(names, ", ")
	cause, question := f.uninstalled(what)
	// A name without a dot is one of the standard library, and misspelt: nothing provides it.
	if strings.Contains(f.req.Artifact.Install, "go get") || reGoNamed.MatchString(f.stderr) {
		return nil, cause, question
	}
	a := f.req.Artifact
	if a.Install != "" {
		a.Install += " && "
	}
	a.Install += goInstall
	return []Correction{{"no module provides " + what + "; it has to be downloaded", a}}, cause, question
}

// pyOwn are modules of the standard library besides pyModules that a Python may lack, because
// it is newer or the machine has only a part of it. No package has them.
const pyOwn = "aifc asynchat asyncore audioop binascii builtins bz2 cgi cgitb chunk code codecs compileall concurrent configparser crypt curses dataclasses dbm dis distutils email encodings ensurepip errno faulthandler fcntl fileinput ftplib getopt getpass gettext grp idlelib imghdr imp importlib ipaddress keyword lib2to3 linecache locale lzma mailbox mailcap marshal mimetypes mmap msilib nis nntplib numbers optparse ossaudiodev pdb pip pipes pkgutil poplib posixpath profile pty pwd py_compile pyexpat readline resource runpy sched select selectors shelve shlex site smtpd smtplib sndhdr spwd ssl stat sunau symtable sysconfig syslog tabnanny tarfile telnetlib termios test tkinter token tokenize tomllib trace tty turtle unittest uu venv wave webbrowser winreg winsound wsgiref xdrlib xmlrpc zipapp zipimport zoneinfo"

// pyPackage returns the package of a Python module; empty if none should be installed.
func (f *failure) pyPackage(module string) string {
	if !rePyPackage.MatchString(module) || f.ownFile(module) ||
		slices.Contains(strings.Fields(pyModules), module) || slices.Contains(strings.Fields(pyOwn), module) {
		return ""
	}
	if pkg := thirdParty[module]; pkg != "" {
		return pkg
	}
	return module
}

// thirdParty are modules outside of the standard library, with the name of their package:
// those whose package has another name, and those whose name is close to one of the standard
// library.
var thirdParty = map[string]string{
	"numpy": "numpy", "pandas": "pandas", "requests": "requests", "scipy": "scipy", "matplotlib": "matplotlib", "sklearn": "scikit-learn",
	"PIL": "pillow", "cv2": "opencv-python-headless", "yaml": "pyyaml", "bs4": "beautifulsoup4", "polars": "polars", "flask": "flask", "django": "django",
	"torch": "torch", "tensorflow": "tensorflow", "httpx": "httpx", "pytest": "pytest", "dateutil": "python-dateutil", "sympy": "sympy", "tqdm": "tqdm", "rich": "rich",
	"dotenv": "python-dotenv", "skimage": "scikit-image", "jwt": "pyjwt", "serial": "pyserial", "Crypto": "pycryptodome", "OpenSSL": "pyopenssl",
	"git": "gitpython", "docx": "python-docx", "pptx": "python-pptx", "magic": "python-magic", "attr": "attrs", "fitz": "pymupdf", "zmq": "pyzmq",
	"nacl": "pynacl", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient", "pkg_resources": "setuptools", "slugify": "python-slugify",
	"arrow": "arrow", "typer": "typer", "ujson": "ujson", "orjson": "orjson", "regex": "regex", "six": "six",
}
