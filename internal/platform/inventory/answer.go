package inventory

import (
	"regexp"
	"slices"
	"strings"

	"hortus.dev/api"
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
	if name == "tsc" && !a.DebianNode {
		return "npm install -g typescript"
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
