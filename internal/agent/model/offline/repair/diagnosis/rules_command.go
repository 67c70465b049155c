package diagnosis

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reCommand  = lazyregexp.New(`(?m)([\w.-]+): (?:command )?not found\s*$`)
	reCantOpen = lazyregexp.New(`can't open file '([^']+)'`)
	reCantFind = lazyregexp.New(`Cannot find module '(/[^']+)'`)
	reMissing  = lazyregexp.New(`(?:No such file or directory: '([^']+)'|ENOENT: no such file or directory, \w+ '([^']+)')`)
	reWrites   = lazyregexp.New(`open\(.*['"][wax]b?\+?['"]|writeFile|appendFile|createWriteStream|write_text|write_bytes|to_csv`)
)

// commandRules are for commands and files, in any language.
func commandRules() []rule {
	return []rule{wrongInterpreter, wrongProgram, missingFile}
}

// instead is what can be requested where an interpreter is missing.
var instead = map[string]string{
	"python3": " Request the same program in JavaScript.",
	"node":    " Request the same program in Python.",
}

func wrongInterpreter(f *failure) ([]Correction, string, string) {
	if f.req.Result.Exit.Code != 127 && f.req.Result.Category != api.CategoryCommand {
		return nil, "", ""
	}
	m := reCommand.FindStringSubmatch(f.stderr)
	if m == nil {
		return nil, "", ""
	}
	a := f.req.Artifact
	other := map[string]string{"python": "python3", "python2": "python3", "py": "python3", "nodejs": "node", "pip": "python3 -m pip", "pip3": "python3 -m pip"}[m[1]]
	if other == "" {
		return nil, "the sandbox has no command " + m[1], "Should " + m[1] + " be installed on this machine, whose tools the host template shows (hortus doctor lists them), or should the program do without it?" + instead[m[1]]
	}
	re := regexp.MustCompile(`\b` + regexp.QuoteMeta(m[1]) + `(\s|$)`)
	a.Run = re.ReplaceAllString(a.Run, other+"$1")
	a.Install = re.ReplaceAllString(a.Install, other+"$1")
	return one("the sandbox has no command "+m[1]+"; "+other+" is there", a)
}

// wrongProgram corrects a run command that names a file that is not there.
func wrongProgram(f *failure) ([]Correction, string, string) {
	m := reCantOpen.FindStringSubmatch(f.stderr)
	if m == nil {
		m = reCantFind.FindStringSubmatch(f.stderr)
	}
	if m == nil {
		return nil, "", ""
	}
	name := path.Base(m[1])
	a := f.req.Artifact
	if !strings.Contains(a.Run, name) {
		return nil, "", ""
	}
	to := closest(name, f.paths())
	if to == "" && len(a.Files) == 1 {
		to = a.Files[0].Path
	}
	if to == "" || to == name {
		return nil, "", ""
	}
	a.Run = strings.ReplaceAll(a.Run, name, to)
	return one("the command runs "+name+", but the program is "+to, a)
}

func (f *failure) paths() []string {
	var out []string
	for _, file := range f.req.Artifact.Files {
		out = append(out, file.Path)
	}
	return out
}

// missingFile corrects a misspelt file, or makes the folder of one that is to be
// written. A file that nobody has is a question.
func missingFile(f *failure) ([]Correction, string, string) {
	m := reMissing.FindStringSubmatch(f.stderr)
	if m == nil || f.line < 0 {
		return nil, "", ""
	}
	name := m[1] + m[2]
	cur := f.current()
	if reWrites.MatchString(cur) && strings.Contains(name, "/") {
		indent := cur[:len(cur)-len(strings.TrimLeft(cur, " \t"))]
		dir, lines := path.Dir(name), f.lines()
		if f.req.Artifact.Language == api.JavaScript {
			lines[f.line] = indent + `require("fs").mkdirSync(` + strconv.Quote(dir) + `, { recursive: true });` + "\n" + cur
			return one("the folder "+dir+" does not exist yet", f.withSource(strings.Join(lines, "\n")))
		}
		lines[f.line] = indent + "os.makedirs(" + strconv.Quote(dir) + ", exist_ok=True)\n" + cur
		src := strings.Join(lines, "\n")
		if !importsPython(src, "os") {
			src = addPythonImport(src, "import os")
		}
		return one("the folder "+dir+" does not exist yet", f.withSource(src))
	}
	if to := closest(path.Base(name), f.paths()); to != "" && to != name {
		return one("there is no file "+name+"; "+to+" is there", f.withSource(strings.ReplaceAll(f.source(), name, to)))
	}
	return nil, "the program reads " + name + ", which is not in the sandbox", "Where does " + name + " come from? The sandbox holds the program's own files alone."
}
