package dependency

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"hortus.dev/internal/platform/lazyregexp"
)

// maxManifest is the most of a manifest of Python that is read, in bytes.
const maxManifest = 256 << 10

// pythonProject is what a pyproject.toml says about dependencies. What is no text or list is not expected, and is any.
type pythonProject struct {
	Project struct {
		Name         string           `toml:"name"`
		Dependencies []any            `toml:"dependencies"`
		Optional     map[string][]any `toml:"optional-dependencies"`
	} `toml:"project"`
	Groups map[string][]any `toml:"dependency-groups"`
	Tool   struct {
		PDM struct {
			Dev map[string][]any `toml:"dev-dependencies"`
		} `toml:"pdm"`
		Hatch struct {
			Envs map[string]struct {
				Dependencies []any `toml:"dependencies"`
				Extra        []any `toml:"extra-dependencies"`
				Features     []any `toml:"features"`
			} `toml:"envs"`
		} `toml:"hatch"`
		Setuptools struct {
			Dynamic struct {
				Dependencies struct {
					File any `toml:"file"`
				} `toml:"dependencies"`
			} `toml:"dynamic"`
		} `toml:"setuptools"`
		Poetry struct {
			Dependencies map[string]any `toml:"dependencies"`
			Dev          map[string]any `toml:"dev-dependencies"`
			Group        map[string]struct {
				Dependencies map[string]any `toml:"dependencies"`
			} `toml:"group"`
		} `toml:"poetry"`
	} `toml:"tool"`
}

// toml reads the pyproject.toml of a directory; it is empty if there is none, or one that cannot be read.
func (d *detector) toml(dir string) (out pythonProject) {
	p := path.Join(dir, "pyproject.toml")
	if !d.has(p) {
		return out
	}
	text := d.Read(p)
	if len(text) > maxManifest {
		d.note("%s has more than %d bytes, so what it names is not installed", p, maxManifest)
		return out
	}
	if err := toml.Unmarshal(text, &out); err != nil {
		d.note("%s cannot be read, so what it names is not installed", p)
		return pythonProject{}
	}
	return out
}

// collection is what the manifests of a Python project name.
type collection struct {
	*detector
	dir   string
	lines []string        // requirements, each of which is correct
	names map[string]bool // their names, and those of files of requirements
	taken map[string]bool // lists that were read
	from  []string        // the manifests

	project pythonProject
	own     string // the normal name of the project
	ini     map[string]map[string][]string
	setup   string // the text of setup.py
}

// add adds a requirement of a manifest, if it is one by name.
func (c *collection) add(p, text string) {
	text = strings.TrimSpace(text)
	m := requirement.FindStringSubmatch(text)
	switch {
	case text == "":
		return
	case m == nil || len(text) > maxRequirement:
		c.note("%s names %.60q, which is not a package with versions, so it is not installed", p, text)
		return
	case len(c.lines) == maxRequirements:
		c.note("%s: only the first %d requirements are installed", p, maxRequirements)
		return
	}
	if normal(m[1]) == c.own && c.own != "" { // the extras of the project itself
		for extra := range strings.SplitSeq(m[2], ",") {
			c.extra(strings.TrimSpace(extra))
		}
		return
	}
	if !slices.Contains(c.from, p) {
		c.from = append(c.from, p)
	}
	line := m[1]
	if m[2] != "" {
		line += "[" + strings.Join(strings.Fields(m[2]), "") + "]"
	}
	line += strings.Join(strings.Fields(m[3]), "")
	if m[4] != "" {
		line += "; " + strings.TrimSpace(strings.ReplaceAll(m[4], "'", `"`))
	}
	c.names[normal(m[1])] = true
	if !slices.Contains(c.lines, line) {
		c.lines = append(c.lines, line)
	}
}

func (c *collection) all(p string, list []any) {
	for _, v := range list {
		if text, ok := v.(string); ok {
			c.add(p, text)
		}
	}
}

// once reports whether a list was not read yet, and notes that it was.
func (c *collection) once(what string) bool {
	was := c.taken[what]
	c.taken[what] = true
	return !was
}

// manifests reads pyproject.toml, setup.cfg, setup.py, tox.ini and noxfile.py.
func (c *collection) manifests() {
	at := func(name string) string { return path.Join(c.dir, name) }
	c.project = c.toml(c.dir)
	c.own = normal(c.project.Project.Name)
	if p := at("setup.cfg"); c.has(p) {
		c.ini = sections(c.Read(p))
	}
	if p := at("setup.py"); c.has(p) {
		text := c.Read(p)
		c.setup = "\n" + string(text[:min(len(text), maxManifest)])
	}
	if c.own == "" {
		c.own = normal(strings.Join(c.ini["metadata"]["name"], ""))
	}
	if m := setupName.FindStringSubmatch(c.setup); m != nil && c.own == "" {
		c.own = normal(m[1])
	}
	c.all(at("pyproject.toml"), c.project.Project.Dependencies)
	c.dynamic(c.project.Tool.Setuptools.Dynamic.Dependencies.File)
	c.poetryTable(c.project.Tool.Poetry.Dependencies)
	c.poetryTable(c.project.Tool.Poetry.Dev)
	for _, text := range c.ini["options"]["install_requires"] {
		c.add(at("setup.cfg"), text)
	}
	for _, name := range []string{"install_requires", "tests_require"} {
		c.literals(c.setup, name)
	}
	for _, name := range testExtras() {
		c.extra(name)
		c.group(name, 0)
		c.all(at("pyproject.toml"), c.project.Tool.PDM.Dev[name])
		c.poetryTable(c.project.Tool.Poetry.Group[name].Dependencies)
	}
	for _, name := range append(testExtras(), "default", "hatch-test") {
		env := c.project.Tool.Hatch.Envs[name]
		c.all(at("pyproject.toml"), env.Dependencies)
		c.all(at("pyproject.toml"), env.Extra)
		for _, v := range env.Features {
			if extra, ok := v.(string); ok {
				c.extra(extra)
			}
		}
	}
	c.tox(at("tox.ini"))
	c.nox(at("noxfile.py"))
}

// noxInstall is what a session of nox installs, or its beginning. The sessions that test have such a name.
var (
	noxInstall = lazyregexp.New(`(?m)^def (\w+)\(|\bsession\.install\(([^()]*)\)`)
	noxTests   = lazyregexp.New(`(?i)test|unit|^ci$`)
)

// nox adds what the sessions of a noxfile.py that test install. The file is a program, so this is what is written there.
func (c *collection) nox(p string) {
	if !c.has(p) {
		return
	}
	text := c.Read(p)
	tests := false
	for _, m := range noxInstall.FindAllStringSubmatch(string(text[:min(len(text), maxManifest)]), -1) {
		if m[1] != "" {
			tests = noxTests.MatchString(m[1])
			continue
		}
		if !tests {
			continue
		}
		list, option := texts(m[2]), ""
		for _, word := range list {
			switch own := ownProject.FindStringSubmatch(word); {
			case option == "-r":
				c.file(path.Join(c.dir, word))
			case option != "" || strings.HasPrefix(word, "-"):
			case own != nil:
				for extra := range strings.SplitSeq(own[1], ",") {
					c.extra(strings.TrimSpace(extra))
				}
			default:
				c.add(p, word)
			}
			if option = ""; slices.Contains([]string{"-r", "-c", "-i", "--constraint", "--index-url", "--extra-index-url"}, word) {
				option = word
			}
		}
	}
}

// extra adds what an extra of the project names.
func (c *collection) extra(name string) {
	if name == "" || !c.once("extra "+normal(name)) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.project.Project.Optional)) {
		if normal(key) == normal(name) {
			c.all(path.Join(c.dir, "pyproject.toml"), c.project.Project.Optional[key])
		}
	}
	for _, text := range c.ini["options.extras_require"][name] {
		c.add(path.Join(c.dir, "setup.cfg"), text)
	}
	if _, extras, ok := strings.Cut(c.setup, "extras_require"); ok && slices.Contains(testExtras(), name) {
		extras, _, _ = strings.Cut(extras, "}")
		c.literals(extras, name)
	}
}

// group adds what a dependency group names, with the groups that it includes.
func (c *collection) group(name string, depth int) {
	if depth > maxDepth || !c.once("group "+normal(name)) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.project.Groups)) {
		if normal(key) != normal(name) {
			continue
		}
		for _, v := range c.project.Groups[key] {
			switch v := v.(type) {
			case string:
				c.add(path.Join(c.dir, "pyproject.toml"), v)
			case map[string]any:
				if more, ok := v["include-group"].(string); ok {
					c.group(more, depth+1)
				}
			}
		}
	}
}

// dynamic adds the requirements of files that a pyproject.toml names.
func (c *collection) dynamic(files any) {
	names, ok := files.([]any)
	if !ok {
		names = []any{files}
	}
	for i, v := range names {
		if name, ok := v.(string); ok && i < maxIncludes {
			c.file(path.Join(c.dir, name))
		}
	}
}

// file adds the requirements of a file that a manifest names.
func (c *collection) file(p string) {
	if !local(p) || !c.has(p) || !c.once("file "+p) {
		return
	}
	for _, name := range requirementFiles() {
		if p == path.Join(c.dir, name) {
			return // is installed anyway
		}
	}
	l := c.requirements(p)
	for _, extra := range l.extras {
		c.extra(extra)
	}
	for _, line := range l.lines {
		c.add(p, line)
	}
	for _, f := range l.files {
		c.input(".", f)
	}
}

// poetryVersion is a version of Poetry's: with a caret or a tilde, or as pip has them.
var poetryVersion = lazyregexp.New(`^([\^~]?)\s*([0-9]+(?:\.[0-9]+)*)$`)

// poetryTable adds a table of Poetry's: names with versions, or with tables that have a version.
func (c *collection) poetryTable(table map[string]any) {
	p := path.Join(c.dir, "pyproject.toml")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		version, extras := table[name], ""
		if t, ok := version.(map[string]any); ok {
			if t["optional"] == true {
				continue
			}
			version = t["version"]
			if list, ok := t["extras"].([]any); ok {
				var names []string
				for _, v := range list {
					if text, ok := v.(string); ok {
						names = append(names, text)
					}
				}
				extras = "[" + strings.Join(names, ",") + "]"
			}
		}
		text, ok := version.(string)
		if name == "python" || !ok {
			if name != "python" {
				c.note("%s names %.60q without a version, so it is not installed", p, name)
			}
			continue
		}
		if m := poetryVersion.FindStringSubmatch(text); m != nil {
			parts := strings.Split(m[2], ".")
			// The part that may not change: with a caret the first that is not 0, with a tilde the second.
			same := 1
			if len(parts) > 1 && (m[1] == "~" || parts[0] == "0") {
				same = 2
			}
			if text = "==" + m[2]; m[1] != "" {
				text = ">=" + m[2] + ",==" + strings.Join(parts[:same], ".") + ".*"
			}
		}
		if text == "*" {
			text = ""
		}
		c.add(p, name+extras+text)
	}
}

// setupName is the name of the project in a setup.py.
var setupName = lazyregexp.New(`\bname\s*=\s*["']([A-Za-z0-9._-]+)["']`)

// maxLiterals is the maximum number of lists of a name that are read in a setup.py.
const maxLiterals = 8

// literals adds the texts of a list in a part of setup.py: name=[...] or "name": [...], or of a variable that is given there. The
// file is a program, so this is what is written there and not what it computes.
func (c *collection) literals(part, name string) {
	p := path.Join(c.dir, "setup.py")
	for _, mark := range []string{name + "=", name + " =", `"` + name + `":`, "'" + name + "':"} {
		rest, found := part, false
		for range maxLiterals {
			if _, rest, found = strings.Cut(rest, mark); !found {
				break
			}
			list := strings.TrimLeft(rest, " \t\r\n")
			if m := variable.FindStringSubmatch(list); m != nil {
				for _, begin := range []string{"\n" + m[1] + " = [", "\n" + m[1] + "=["} {
					if _, value, ok := strings.Cut(c.setup, begin); ok {
						list = "[" + value
						break
					}
				}
			}
			if !strings.HasPrefix(list, "[") {
				if list != "" && !strings.HasPrefix(list, "=") {
					c.note("%s computes %s, so what it names is not installed", p, name)
				}
				continue
			}
			for _, text := range texts(list[1:]) {
				c.add(p, text)
			}
		}
	}
}

// variable is a variable of Python as a whole value.
var variable = lazyregexp.New(`^([A-Za-z_][A-Za-z0-9_]{0,63})\s*[,)\n]`)

// texts returns the texts of a list of Python until its end, or until what is no text.
func texts(s string) (out []string) {
	for {
		s = strings.TrimLeft(s, " \t\r\n,")
		switch {
		case strings.HasPrefix(s, "#"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, `"`), strings.HasPrefix(s, "'"):
			text, rest, ok := strings.Cut(s[1:], s[:1])
			if !ok {
				return out
			}
			out, s = append(out, text), rest
		default:
			return out
		}
	}
}

// tox adds the dependencies of the environment of tox that tests without a name.
func (c *collection) tox(p string) {
	if !c.has(p) {
		return
	}
	for _, line := range sections(c.Read(p))["testenv"]["deps"] {
		if value, ok := included(line); ok {
			if !strings.HasPrefix(line, "-c") && !strings.HasPrefix(line, "--constraint") {
				c.file(path.Join(c.dir, strings.TrimPrefix(strings.TrimPrefix(value, "{toxinidir}"), "/")))
			}
			continue
		}
		// What is for some environments only, or made of variables, is left to tox.
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.ContainsAny(name, "=<>;[ ") || strings.ContainsAny(line, "{}") || strings.HasPrefix(line, "-") {
			continue
		}
		if ownProject.MatchString(line) {
			continue
		}
		c.add(p, line)
	}
}

// sections reads a file of sections with values of several lines, such as setup.cfg and tox.ini.
func sections(text []byte) map[string]map[string][]string {
	out := map[string]map[string][]string{}
	var section, key string
	for line := range strings.Lines(string(text[:min(len(text), maxManifest)])) {
		value := strings.TrimSpace(line)
		if value == "" || strings.HasPrefix(value, "#") || strings.HasPrefix(value, ";") {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
				section, key = strings.Trim(value, "[]"), ""
				continue
			}
			end := strings.IndexAny(value, "=:")
			if end < 0 {
				key = ""
				continue
			}
			key, value = strings.TrimSpace(value[:end]), strings.TrimSpace(value[end+1:])
			if out[section] == nil {
				out[section] = map[string][]string{}
			}
		}
		if at := comment(value); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		if key != "" && value != "" {
			out[section][key] = append(out[section][key], value)
		}
	}
	return out
}
