package diagnosis

import (
	"regexp"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

func scriptRules() []rule {
	return []rule{jsModuleKind, jsName, jsModule, jsMethod, jsConst, jsSyntax, jsIndex, jsSlow, jsAsk}
}

const jsModules = "assert buffer child_process cluster crypto dgram dns events fs http http2 https net os path perf_hooks process querystring readline stream string_decoder timers tls tty url util v8 vm worker_threads zlib"

const jsGlobals = "console process Array Object String Number Boolean Map Set Math JSON Date RegExp Promise Symbol BigInt Error TypeError RangeError parseInt parseFloat isNaN setTimeout setInterval require module exports Buffer URL undefined NaN Infinity"

const jsMethods = "log error push pop shift unshift slice splice map filter reduce forEach some every find findIndex indexOf includes join split concat sort reverse keys values entries from isArray fill flat flatMap length toString toFixed toPrecision toUpperCase toLowerCase trim replace replaceAll charAt charCodeAt codePointAt startsWith endsWith padStart padEnd repeat match matchAll test exec get set has add delete clear floor ceil round max min abs sqrt pow random parse stringify assign readFileSync writeFileSync existsSync mkdirSync createHash update digest toISOString getTime getUTCDay isInteger isNaN"

var jsFrom = map[string]string{
	"readFileSync": "fs", "writeFileSync": "fs", "existsSync": "fs", "mkdirSync": "fs", "createHash": "crypto", "randomBytes": "crypto",
	"join": "path", "resolve": "path", "basename": "path", "execSync": "child_process", "inspect": "util", "promisify": "util", "EventEmitter": "events",
	"performance": "perf_hooks",
}

var (
	reJSName    = lazyregexp.New(`ReferenceError: ([\w$]+) is not defined`)
	reJSModule  = lazyregexp.New(`Cannot find (?:module|package) '([^'/][^']*|\.{1,2}/[^']*)'`)
	reJSMethod  = lazyregexp.New(`TypeError: (?:[\w$.()\[\] ]*\.)?([\w$]+) is not a (?:function|constructor)`)
	reImport    = lazyregexp.New(`(?m)^\s*import\s`)
	reRequire   = lazyregexp.New(`(?m)^(\s*)(?:const|let|var)\s+([\w$]+|\{[^}]*\})\s*=\s*require\((['"][^'"]+['"])\);?`)
	reJSFunc    = lazyregexp.New(`(?m)^(\s*)function\s+([\w$]+)\s*\(\s*([\w$]+)\s*\)\s*\{`)
	rePastLen   = lazyregexp.New(`<=\s*([\w$.]+\.length)\b`)
	reConstDecl = `\bconst(\s+)`
)

// jsModuleKind is for programs that mix the two kinds of modules.
func jsModuleKind(f *failure) ([]Correction, string, string) {
	src := f.source()
	to := func(ext, cause, src string) ([]Correction, string, string) {
		a := f.withSource(src)
		old := a.Files[f.file].Path
		i := strings.LastIndexByte(old, '.')
		if i < 0 {
			return nil, "", ""
		}
		a.Files[f.file].Path = old[:i] + ext
		a.Run = strings.ReplaceAll(a.Run, old, old[:i]+ext)
		return one(cause, a)
	}
	switch {
	case strings.Contains(f.stderr, "Cannot use import statement outside a module"),
		strings.Contains(f.stderr, "Unexpected token 'export'"),
		strings.Contains(f.stderr, "await is only valid in async functions and the top level bodies of modules"):
		src = reRequire.ReplaceAllString(src, "${1}import $2 from $3;")
		return to(".mjs", "the program is an ES module; its file must end in .mjs", src)
	case strings.Contains(f.stderr, "require is not defined in ES module scope"):
		if reImport.MatchString(src) {
			return one("an ES module imports with import, not require", f.withSource(reRequire.ReplaceAllString(src, "${1}import $2 from $3;")))
		}
		return to(".cjs", "the program uses require; its file must end in .cjs", src)
	}
	return nil, "", ""
}

// addScriptImport puts an import in front of a program, of its kind.
func (f *failure) addScriptImport(names, module string) string {
	src := f.source()
	if strings.HasSuffix(f.req.Artifact.Files[f.file].Path, ".mjs") || reImport.MatchString(src) {
		return "import " + names + ` from "` + module + "\";\n" + src
	}
	if strings.HasPrefix(src, "#!") || strings.HasPrefix(src, `"use strict"`) {
		first, rest, _ := strings.Cut(src, "\n")
		return first + "\nconst " + names + ` = require("` + module + "\");\n" + rest
	}
	return "const " + names + ` = require("` + module + "\");\n" + src
}

func jsName(f *failure) ([]Correction, string, string) {
	m := reJSName.FindStringSubmatch(f.stderr)
	if m == nil || strings.Contains(f.stderr, "ES module scope") {
		return nil, "", ""
	}
	name, src := m[1], f.source()
	var fixes []Correction
	add := func(cause, src string) { fixes = append(fixes, Correction{cause, f.withSource(src)}) }
	switch {
	case slices.Contains(strings.Fields(jsModules), name):
		add(name+" is used without its import", f.addScriptImport(name, name))
	case jsFrom[name] != "":
		add(name+" is used without its import from "+jsFrom[name], f.addScriptImport("{ "+name+" }", jsFrom[name]))
	}
	for _, old := range [][2]string{{"True", "true"}, {"False", "false"}, {"None", "null"}, {"nil", "null"}, {"print", "console.log"}, {"len", ""}} {
		if name == old[0] && old[1] != "" {
			add(name+" is "+old[1]+" in JavaScript", renameAll(src, name, old[1]))
		}
	}
	names := slices.DeleteFunc(identifiers(src), func(s string) bool {
		return s == name || s == "const" || s == "let" || s == "return" || s == "function"
	})
	if c := closest(name, append(names, strings.Fields(jsGlobals)...)); c != "" {
		add(name+" is misspelt; "+c+" is meant", renameAll(src, name, c))
	}
	if c := closest(name, strings.Fields(jsGlobals)); c != "" {
		add(name+" is misspelt; "+c+" is meant", renameAll(src, name, c))
	}
	if regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `\s*=[^=]`).MatchString(src) {
		add(name+" is assigned without a declaration", regexp.MustCompile(`(?m)^(\s*)(`+regexp.QuoteMeta(name)+`\s*=[^=])`).ReplaceAllString(src, "${1}let $2"))
	}
	return fixes, f.error, "What is " + name + "? Nothing in the program defines it, and no known name is close."
}

func jsModule(f *failure) ([]Correction, string, string) {
	m := reJSModule.FindStringSubmatch(f.stderr)
	if m == nil {
		return nil, "", ""
	}
	name, src := m[1], f.source()
	var fixes []Correction
	if strings.HasPrefix(name, ".") {
		if to := closest(strings.TrimPrefix(name, "./"), f.paths()); to != "" {
			return one("there is no file "+name+"; "+to+" is there", f.withSource(strings.ReplaceAll(src, name, "./"+to)))
		}
		return nil, "the program imports " + name + ", which is not one of its files", "What should " + name + " hold?"
	}
	pkg, _, _ := strings.Cut(name, "/")
	if f.ownFile(pkg) && f.hasScript(pkg) != "" {
		re := regexp.MustCompile(`(['"])` + regexp.QuoteMeta(pkg) + `(['"])`)
		return one(pkg+" is a file of the program; its path begins with ./", f.withSource(re.ReplaceAllString(src, "${1}./"+f.hasScript(pkg)+"$2")))
	}
	if to := closest(pkg, strings.Fields(jsModules)); to != "" && !slices.Contains(strings.Fields(scriptPackages), pkg) {
		re := regexp.MustCompile(`(['"])` + regexp.QuoteMeta(pkg) + `(['"])`)
		fixes = append(fixes, Correction{"there is no module " + pkg + "; " + to + " is meant", f.withSource(re.ReplaceAllString(src, "${1}"+to+"$2"))})
	}
	install, cause, question := scriptPackage(f)
	if len(fixes) > 0 {
		install = nil // what may be a misspelt module of Node is no package to install
	}
	return append(fixes, install...), cause, question
}

// hasScript returns the path of the program's file of JavaScript with a name, or "".
func (f *failure) hasScript(name string) string {
	for _, p := range f.paths() {
		if p == name+".js" || p == name+".mjs" || p == name+".cjs" {
			return p
		}
	}
	return ""
}

func jsMethod(f *failure) ([]Correction, string, string) {
	m := reJSMethod.FindStringSubmatch(f.stderr)
	if m == nil || f.line < 0 {
		return nil, "", ""
	}
	name, src := m[1], f.source()
	var fixes []Correction
	to := func(c string) {
		if c != "" && c != name {
			fixes = append(fixes, Correction{name + " is misspelt; " + c + " is meant", f.withSource(renameAll(src, name, c))})
		}
	}
	to(map[string]string{"append": "push", "upper": "toUpperCase", "lower": "toLowerCase", "strip": "trim", "foreach": "forEach", "contains": "includes", "startswith": "startsWith", "println": "log", "print": "log"}[name])
	to(closest(name, strings.Fields(jsMethods)))
	to(closest(name, slices.DeleteFunc(identifiers(src), func(s string) bool { return s == name })))
	return fixes, f.error, "What should be called instead of " + name + "?"
}

func jsConst(f *failure) ([]Correction, string, string) {
	if !strings.Contains(f.error, "Assignment to constant variable") || f.line < 0 {
		return nil, "", ""
	}
	m := regexp.MustCompile(`([A-Za-z_$][\w$]*)\s*(?:[-+*/%]?=[^=>]|\+\+|--)`).FindAllStringSubmatch(f.current(), -1)
	for _, c := range m {
		re := regexp.MustCompile(reConstDecl + regexp.QuoteMeta(c[1]) + `\b`)
		if re.MatchString(f.source()) {
			return one(c[1]+" changes, so it is not a constant", f.withSource(re.ReplaceAllString(f.source(), "let${1}"+c[1])))
		}
	}
	return nil, "", ""
}

func jsIndex(f *failure) ([]Correction, string, string) {
	if !strings.Contains(f.error, "Cannot read properties of undefined") || !rePastLen.MatchString(f.source()) {
		return nil, "", ""
	}
	return one("the loop goes one past the end of the list", f.withSource(rePastLen.ReplaceAllString(f.source(), "< $1")))
}

// jsSlow remembers the results of a function that calls itself more than once.
func jsSlow(f *failure) ([]Correction, string, string) {
	if f.req.Result.Category != api.CategoryTimeout {
		return nil, "", ""
	}
	src := f.source()
	for _, m := range reJSFunc.FindAllStringSubmatchIndex(src, -1) {
		indent, name, arg := src[m[2]:m[3]], src[m[4]:m[5]], src[m[6]:m[7]]
		end := strings.Index(src[m[1]:], "\n"+indent+"}")
		if end < 0 {
			continue
		}
		body := src[m[1] : m[1]+end]
		if len(regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\(`).FindAllString(body, -1)) < 2 || strings.Contains(body, "console.") || strings.Contains(body, ".push(") {
			continue
		}
		inner := name + "Once"
		memo := "const " + name + "Known = new Map();\n\n" +
			indent + "function " + name + "(" + arg + ") {\n" +
			indent + "  if (!" + name + "Known.has(" + arg + ")) {\n" +
			indent + "    " + name + "Known.set(" + arg + ", " + inner + "(" + arg + "));\n" +
			indent + "  }\n" +
			indent + "  return " + name + "Known.get(" + arg + ");\n" +
			indent + "}\n\n" + indent
		at := m[2] + len(indent)
		head := strings.Replace(src[at:m[1]], "function "+name, "function "+inner, 1)
		return one(name+" computes the same values again and again; now it remembers them", f.withSource(src[:at]+memo+head+src[m[1]:]))
	}
	return nil, "", ""
}

func jsAsk(f *failure) ([]Correction, string, string) {
	if f.req.Result.Category == api.CategoryTimeout && reForever.MatchString(f.source()) && !strings.Contains(f.source(), "break") {
		return nil, "the program has a loop without an end", "When should the loop end?"
	}
	return nil, "", ""
}
