package language

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
)

// All returns the languages, in the order in which they are listed to people.
func All() []Language { return slices.Clone(table) }

// Names returns their names, in the same order.
func Names() []string {
	names := make([]string, len(table))
	for i, l := range table {
		names[i] = string(l.Name)
	}
	return names
}

// Titles lists them for people: "Python, JavaScript, ... and Perl".
func Titles() string {
	titles := make([]string, len(table))
	for i, l := range table {
		titles[i] = l.Title
	}
	last := len(titles) - 1
	return strings.Join(titles[:last], ", ") + " and " + titles[last]
}

// Of returns the language of a name of the api package.
func Of(name api.Language) (Language, bool) {
	i := slices.IndexFunc(table, func(l Language) bool { return l.Name == name })
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}

// Named returns the language that people call so, in any case: "golang", "C++", "ts".
func Named(name string) (Language, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	i := slices.IndexFunc(table, func(l Language) bool {
		return string(l.Name) == name || strings.ToLower(l.Title) == name || slices.Contains(l.Others, name)
	})
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}

// OfFile returns the language of a file by the ending of its name.
func OfFile(name string) (Language, bool) {
	end := strings.ToLower(path.Ext(name))
	if end == "" {
		return Language{}, false
	}
	if l, ok := Named(end[1:]); ok {
		return l, true
	}
	i := slices.IndexFunc(table, func(l Language) bool { return path.Ext(l.Main) == end })
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}

// Lacks returns the first thing that the language needs and the tools of a sandbox do not
// have, or "".
func (l Language) Lacks(tools []api.Tool) string {
	for _, need := range l.Needs {
		choices := strings.Split(need, "|")
		if !slices.ContainsFunc(choices, func(choice string) bool { return has(tools, choice) }) {
			return strings.Join(choices, " or ")
		}
	}
	return ""
}

// has reports whether one of the tools is what a need names.
func has(tools []api.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t api.Tool) bool { return t.Name == name && t.Present })
}
