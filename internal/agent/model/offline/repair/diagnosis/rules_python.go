package diagnosis

import (
	"regexp"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

func pythonRules() []rule {
	return []rule{pyName, pyModule, pyAttribute, pyImportName, pySyntax, pyIndent, pyUnbound, pyConcat, pyIndex, pySlow, pyMemory, pyEncoding, pyAsk}
}

const pyModules = "abc argparse array ast asyncio base64 bisect calendar cmath collections contextlib copy csv ctypes datetime decimal difflib enum fractions functools glob gzip hashlib heapq hmac html http inspect io itertools json logging math multiprocessing operator os pathlib pickle platform pprint queue random re secrets shutil signal socket sqlite3 statistics string struct subprocess sys tempfile textwrap threading time timeit traceback types typing unicodedata urllib uuid warnings weakref xml zipfile zlib"

// pyFrom is where a name that people use without its module comes from.
var pyFrom = map[string]string{
	"Counter": "collections", "defaultdict": "collections", "deque": "collections", "OrderedDict": "collections", "namedtuple": "collections",
	"dataclass": "dataclasses", "field": "dataclasses", "Path": "pathlib", "reduce": "functools", "lru_cache": "functools", "cache": "functools",
	"partial": "functools", "wraps": "functools", "sqrt": "math", "ceil": "math", "floor": "math", "pi": "math", "gcd": "math", "factorial": "math",
	"randint": "random", "shuffle": "random", "mean": "statistics", "median": "statistics", "stdev": "statistics", "mode": "statistics", "List": "typing", "Dict": "typing", "Optional": "typing",
	"Any": "typing", "Tuple": "typing", "Enum": "enum", "Decimal": "decimal", "Fraction": "fractions", "permutations": "itertools",
	"combinations": "itertools", "chain": "itertools", "islice": "itertools", "timedelta": "datetime", "date": "datetime", "sleep": "time",
	"ABC": "abc", "abstractmethod": "abc", "sha256": "hashlib", "urlsplit": "urllib.parse", "urlparse": "urllib.parse", "parse_qsl": "urllib.parse", "urlencode": "urllib.parse",
	"b64encode": "base64", "b64decode": "base64", "perf_counter": "time", "namedTuple": "collections", "heappush": "heapq", "heappop": "heapq", "bisect_left": "bisect",
}

const pyBuiltins = "abs all any bool bytes chr dict divmod enumerate filter float format frozenset getattr hash hex input int isinstance iter len list map max min next object oct open ord pow print range repr reversed round set setattr sorted str sum super tuple type zip ValueError TypeError KeyError IndexError Exception True False None return import lambda while yield"

var (
	rePyName      = lazyregexp.New(`^NameError: name '(\w+)' is not defined`)
	reDidYouMean  = lazyregexp.New(`Did you mean: '([\w.]+)'`)
	rePyModule    = lazyregexp.New(`^ModuleNotFoundError: No module named '([\w.]+)'`)
	rePyAttribute = lazyregexp.New(`^AttributeError: (?:module '([\w.]+)'|(?:type object )?'([\w.]+)'(?: object)?) has no attribute '(\w+)'`)
	rePyImport    = lazyregexp.New(`^ImportError: cannot import name '(\w+)' from '([\w.]+)'`)
	reUnbound     = lazyregexp.New(`^UnboundLocalError: (?:cannot access )?local variable '(\w+)'`)
	rePyDefLine   = lazyregexp.New(`^(\s*)(?:async\s+)?def\s+(\w+)\s*\(([^)]*)\)`)
)

// addPythonImport puts an import behind the docstring, the comments and the
// __future__ imports that a file begins with.
func addPythonImport(src, line string) string {
	lines := strings.Split(src, "\n")
	at := 0
	for i := 0; i < len(lines); i++ {
		t := strings.TrimSpace(lines[i])
		if i == at && (strings.HasPrefix(t, `"""`) || strings.HasPrefix(t, "'''")) {
			q := t[:3]
			for strings.Count(strings.Join(lines[at:i+1], "\n"), q) < 2 && i+1 < len(lines) {
				i++
			}
			at = i + 1
			continue
		}
		if strings.HasPrefix(t, "#") && i == at || strings.HasPrefix(t, "from __future__") {
			at = i + 1
		}
	}
	return strings.Join(slices.Insert(lines, at, line), "\n")
}

func importsPython(src, module string) bool {
	return regexp.MustCompile(`(?m)^\s*import\s+(?:\w+\s*,\s*)*` + regexp.QuoteMeta(module) + `\b`).MatchString(src)
}

// pyName is for a name that nobody defined: a module or a known function without
// its import, an old or foreign name, or a misspelt one.
func pyName(f *failure) ([]Correction, string, string) {
	m := f.find(rePyName)
	if m == nil {
		return nil, "", ""
	}
	name, src := m[1], f.source()
	var fixes []Correction
	add := func(cause, src string) { fixes = append(fixes, Correction{cause, f.withSource(src)}) }
	imported := func(line string) {
		add(name+" is used without its import ("+line+")", addPythonImport(src, line))
	}
	asModule := regexp.MustCompile(`\b` + name + `\.\w`).MatchString(src)
	local := closest(name, slices.DeleteFunc(identifiers(src), func(s string) bool { return s == name }))
	switch {
	case name == "datetime" && !strings.Contains(src, "datetime.datetime") && !strings.Contains(src, "datetime.date(") && !strings.Contains(src, "datetime.timedelta"):
		imported("from datetime import datetime")
	case name == "np":
		imported("import numpy as np")
	case name == "pd":
		imported("import pandas as pd")
	case slices.Contains(strings.Fields(pyModules), name) && asModule:
		imported("import " + name)
	case pyFrom[name] != "":
		imported("from " + pyFrom[name] + " import " + name)
	}
	for _, old := range [][2]string{{"true", "True"}, {"false", "False"}, {"null", "None"}, {"none", "None"}, {"nil", "None"}, {"undefined", "None"}, {"raw_input", "input"}, {"xrange", "range"}, {"unicode", "str"}, {"console", ""}} {
		if name == old[0] && old[1] != "" {
			add(name+" is "+old[1]+" in Python", renameAll(src, name, old[1]))
		}
	}
	if d := reDidYouMean.FindStringSubmatch(f.error); d != nil {
		add(name+" is misspelt; "+d[1]+" is meant", renameAll(src, name, d[1]))
	}
	if local != "" {
		add(name+" is misspelt; "+local+" is meant", renameAll(src, name, local))
	}
	if b := closest(name, strings.Fields(pyBuiltins)); b != "" {
		add(name+" is misspelt; "+b+" is meant", renameAll(src, name, b))
	}
	if mod := closest(name, strings.Fields(pyModules)); mod != "" && asModule && !importsPython(src, mod) && len(fixes) == 0 {
		add(name+" is misspelt; the module "+mod+" is meant", addPythonImport(renameAll(src, name, mod), "import "+mod))
	}
	return fixes, f.error, "What is " + name + "? Nothing in the program defines it, and no known name is close."
}

// pyModule is for a module that is not there: misspelt, renamed since Python 2,
// replaceable by the standard library, or to be installed.
func pyModule(f *failure) ([]Correction, string, string) {
	m := f.find(rePyModule)
	if m == nil {
		m = regexp.MustCompile(`(?m)^ModuleNotFoundError: No module named '([\w.]+)'`).FindStringSubmatch(f.stderr)
	}
	name := ""
	if m != nil {
		name, _, _ = strings.Cut(m[1], ".")
	} else if f.req.Result.Phase == api.PhaseInstall {
		if i := regexp.MustCompile(`pip install(?: --\S+)* ([\w.-]+)`).FindStringSubmatch(f.req.Artifact.Install); i != nil {
			name = i[1]
		}
	}
	if name == "" {
		return nil, "", ""
	}
	src := f.source()
	var fixes []Correction
	renamed := map[string]string{"urllib2": "urllib.request", "ConfigParser": "configparser", "StringIO": "io", "Queue": "queue", "cPickle": "pickle", "Tkinter": "tkinter", "httplib": "http.client"}[name]
	if renamed != "" {
		line := regexp.MustCompile(`(?m)^(\s*)import `+name+`\s*$`).ReplaceAllString(src, "${1}import "+renamed+" as "+name)
		line = strings.ReplaceAll(line, "from "+name+" import", "from "+renamed+" import")
		fixes = append(fixes, Correction{name + " is called " + renamed + " in Python 3", f.withSource(line)})
	}
	typo := closest(name, strings.Fields(pyModules))
	if thirdParty[name] != "" {
		typo = ""
	}
	if to := typo; to != "" {
		fixes = append(fixes, Correction{"there is no module " + name + "; " + to + " is meant", f.withSource(renameAll(src, name, to))})
	}
	if name == "numpy" {
		if plain, ok := withoutNumpy(src); ok {
			a := f.withSource(plain)
			a.Install = ""
			fixes = append(fixes, Correction{"numpy is not in the sandbox; the standard library does the same", a})
		}
	}
	// What may be a misspelt module of the standard library is no package to install.
	if pkg := f.pyPackage(name); pkg != "" && typo == "" && renamed == "" {
		if a, ok := f.installing(pipInstall, pkg); ok {
			fixes = append(fixes, Correction{"the module " + name + " is not in the sandbox; it has to be installed", a})
		}
	}
	cause, question := f.uninstalled(name)
	return fixes, cause, question
}

// withoutNumpy writes simple uses of numpy in plain Python. It is false when the
// program uses anything else of numpy.
func withoutNumpy(src string) (string, bool) {
	m := regexp.MustCompile(`(?m)^import numpy(?: as (\w+))?\s*$`).FindStringSubmatch(src)
	if m == nil {
		return "", false
	}
	np := m[1]
	if np == "" {
		np = "numpy"
	}
	out := strings.Replace(src, strings.TrimRight(m[0], "\n"), "import statistics", 1)
	for _, r := range [][2]string{
		{`\.array\(`, "list("}, {`\.mean\(`, "statistics.mean("}, {`\.average\(`, "statistics.mean("}, {`\.median\(`, "statistics.median("},
		{`\.std\(([^()]*?),\s*ddof=1\)`, "statistics.stdev($1)"}, {`\.std\(([^(),]*)\)`, "statistics.pstdev($1)"},
		{`\.var\(([^()]*?),\s*ddof=1\)`, "statistics.variance($1)"}, {`\.var\(([^(),]*)\)`, "statistics.pvariance($1)"},
		{`\.(?:min|amin)\(`, "min("}, {`\.(?:max|amax)\(`, "max("}, {`\.sum\(`, "sum("}, {`\.sort\(`, "sorted("},
	} {
		out = regexp.MustCompile(`\b`+np+r[0]).ReplaceAllString(out, r[1])
	}
	if wordIn(np).MatchString(out) || strings.Contains(out, "axis=") {
		return "", false
	}
	// Methods of an array are none of a list.
	for _, method := range []string{".mean()", ".std()", ".reshape(", ".shape", ".dot(", ".T"} {
		if strings.Contains(out, method) {
			return "", false
		}
	}
	return out, true
}

func pyAttribute(f *failure) ([]Correction, string, string) {
	m := f.find(rePyAttribute)
	if m == nil || f.line < 0 {
		return nil, "", ""
	}
	attr, src := m[3], f.source()
	var fixes []Correction
	to := func(name string) {
		if name != "" && name != attr {
			fixes = append(fixes, Correction{attr + " is misspelt; " + name + " is meant",
				f.withSource(regexp.MustCompile(`\.`+attr+`\b`).ReplaceAllLiteralString(src, "."+name))})
		}
	}
	if d := reDidYouMean.FindStringSubmatch(f.error); d != nil {
		to(d[1])
	}
	to(map[string]string{"list.push": "append", "list.add": "append", "dict.iteritems": "items", "dict.has_key": "", "str.toUpperCase": "upper", "str.toLowerCase": "lower", "str.trim": "strip", "list.length": ""}[m[2]+"."+attr])
	to(closest(attr, slices.DeleteFunc(identifiers(src), func(s string) bool { return s == attr })))
	to(closest(attr, strings.Fields(pyMethods)))
	if len(fixes) == 0 && m[1] != "" && m[1] == "datetime" {
		to("datetime." + attr)
	}
	return fixes, f.error, "What should be used instead of " + attr + "?"
}

const pyMethods = "append extend insert remove pop clear index count sort reverse copy keys values items get update upper lower strip lstrip rstrip split join replace find startswith endswith format encode decode isdigit isalpha isalnum capitalize title splitlines read write readlines close add discard union intersection mean median mode stdev variance pstdev sqrt floor ceil randint choice shuffle sample random dumps loads dump load writerow writerows reader writer DictReader DictWriter sha256 hexdigest digest search match findall sub compile now today strftime strptime isoformat fromisoformat days seconds gcd factorial pi most_common elements popleft appendleft multimode fmean environ path join exists makedirs listdir getcwd argv exit stdout stderr"

func pyImportName(f *failure) ([]Correction, string, string) {
	m := f.find(rePyImport)
	if m == nil {
		return nil, "", ""
	}
	src := f.source()
	var fixes []Correction
	var known []string
	for name, mod := range pyFrom {
		if name == m[1] && mod != m[2] {
			fixes = append(fixes, Correction{m[1] + " comes from " + mod, f.withSource(regexp.MustCompile(`\bfrom `+regexp.QuoteMeta(m[2])+` import `+m[1]+`\b`).ReplaceAllString(src, "from "+mod+" import "+m[1]))})
		}
		if mod == m[2] {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	if d := reDidYouMean.FindStringSubmatch(f.error); d != nil {
		fixes = append(fixes, Correction{m[1] + " is misspelt; " + d[1] + " is meant", f.withSource(renameAll(src, m[1], d[1]))})
	}
	if c := closest(m[1], append(known, slices.DeleteFunc(identifiers(src), func(s string) bool { return s == m[1] })...)); c != "" {
		fixes = append(fixes, Correction{m[1] + " is misspelt; " + c + " is meant", f.withSource(renameAll(src, m[1], c))})
	}
	return fixes, f.error, "Which name of " + m[2] + " should be imported instead of " + m[1] + "?"
}

// pyUnbound is for a function that changes a variable of the module.
func pyUnbound(f *failure) ([]Correction, string, string) {
	m := f.find(reUnbound)
	if m == nil || f.line < 0 {
		return nil, "", ""
	}
	if !regexp.MustCompile(`(?m)^` + m[1] + `\s*=`).MatchString(f.source()) {
		c := closest(m[1], slices.DeleteFunc(identifiers(f.source()), func(s string) bool { return s == m[1] }))
		if c == "" || len(m[1]) <= 3 {
			return nil, "", ""
		}
		return one(m[1]+" is misspelt; "+c+" is meant", f.withSource(renameAll(f.source(), m[1], c)))
	}
	lines := f.lines()
	for i := f.line; i >= 0; i-- {
		if d := rePyDefLine.FindStringSubmatch(lines[i]); d != nil {
			lines = slices.Insert(lines, i+1, d[1]+"    global "+m[1])
			return one("the function changes "+m[1]+", which belongs to the module", f.withSource(strings.Join(lines, "\n")))
		}
	}
	return nil, "", ""
}
