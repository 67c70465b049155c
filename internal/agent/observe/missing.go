package observe

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// maxName bounds the name of a package or command, in bytes.
const maxName = 80

var (
	pyModule = lazyregexp.New(`(?m)^(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?`)
	jsModule = lazyregexp.New(`Cannot find (?:module|package) '([^'\s]+)'`)
	// imports say what the other languages lack.
	imports = map[api.Language]*lazyregexp.Regexp{
		api.Go:        lazyregexp.New(`(?:no required module provides package |cannot find package "?|package )([\w./-]+?)(?:;|:|" in any of| is not in std)`),
		api.Rust:      lazyregexp.New("(?:can't find crate for|unresolved import) `([\\w]+)"),
		api.Java:      lazyregexp.New(`error: package ([\w.]+) does not exist`),
		api.C:         lazyregexp.New(`fatal error: ([\w./+-]+): No such file`),
		api.CPlusPlus: lazyregexp.New(`fatal error: ([\w./+-]+): No such file`),
		api.Ruby:      lazyregexp.New(`cannot load such file -- ([\w./-]+)`),
		api.Perl:      lazyregexp.New(`Can't locate (\S+)\.pm in @INC`),
		api.Bash:      command,
		api.PHP:       lazyregexp.New(`Class "([\w\\\\]+)" not found`),
	}
	command = lazyregexp.New(`(?m)^(?:\S+: )?(?:line \d+: |\d+: )?([\w.+-]+): (?:command )?not found\s*$`)
	// goPath is the path of a package of Go.
	goPath = lazyregexp.New(`^[A-Za-z0-9][\w-]*(?:\.[\w-]+)*(?:/[\w.~-]+)*$`)
	// plainName is what a package or a command may be called; anything else is
	// no name but something that a program printed.
	plainName = lazyregexp.New(`^@?[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)?$`)
)

// Missing names what a failure of the category missing_import or
// command_not_found lacked: a package of the language, or a command. It is empty
// where stderr does not say.
func Missing(lang api.Language, category api.Category, stderr string) string {
	name := ""
	switch category {
	case api.CategoryImport:
		switch re := imports[lang]; {
		case lang == api.JavaScript, lang == api.TypeScript:
			name = jsPackage(last(jsModule, stderr))
		case re != nil:
			name = last(re, stderr)
		default:
			name, _, _ = strings.Cut(last(pyModule, stderr), ".")
		}
	case api.CategoryCommand:
		name = last(command, stderr)
	}
	if len(name) > maxName || !plainName.MatchString(name) && !(lang == api.Go && goPath.MatchString(name)) {
		return ""
	}
	return name
}

// jsPackage is the package of what was imported: two parts with a scope, else
// one. A file of the program is none.
func jsPackage(path string) string {
	if strings.HasPrefix(path, ".") || strings.HasPrefix(path, "/") || strings.HasPrefix(path, "file:") || strings.HasPrefix(path, "node:") {
		return ""
	}
	parts := strings.SplitN(path, "/", 3)
	if strings.HasPrefix(path, "@") {
		if len(parts) < 2 {
			return ""
		}
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// last is the first group of the last match: an interpreter names at the end
// what ended the program.
func last(re *lazyregexp.Regexp, text string) string {
	all := re.FindAllStringSubmatch(text, -1)
	if all == nil {
		return ""
	}
	return all[len(all)-1][1]
}
