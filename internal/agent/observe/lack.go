package observe

import (
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// Lack is something that a program needed and its sandbox did not have: a library, a
// command, or what an installer wanted to download.
type Lack struct {
	// Language is that of a library; empty for a command.
	Language api.Language
	// Name is that of the library or the command.
	Name string
	// Told is true if it is known already what allows a download of it.
	Told bool
	// Installer is pip, npm or go if it is what failed, and the name is not known.
	Installer string
}

// lacks are the lines with which programs and test runners say what is missing. The
// group of each names it.
var lacks = []struct {
	re   *lazyregexp.Regexp
	lang api.Language
}{
	{lazyregexp.New(`(?m)^(?:E? +)?(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)'?`), api.Python},
	{lazyregexp.New(`(?m)^\S*python[\d.]*: No module named '?([\w.]+)'?`), api.Python},
	{jsModule, api.JavaScript},
	{lazyregexp.New(`no required module provides package ([\w./-]+)`), api.Go},
	{lazyregexp.New(`cannot load such file -- ([\w./-]+)`), api.Ruby},
	{command, ""},
	{lazyregexp.New(`(?m)^(?:make(?:\[\d+\])?|env|exec|sh|bash): (?:line \d+: )?['‘"]?([\w.+-]+)['’"]?: No such file or directory`), ""},
}

// installers are known by what they say without a network or a place to install to.
var installers = []struct {
	re   *lazyregexp.Regexp
	name string
}{
	{lazyregexp.New(`externally-managed-environment|Could not find a version that satisfies the requirement|No matching distribution found`), "pip"},
	{lazyregexp.New(`(?m)^npm (?:ERR!|error) (?:code )?(?:EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ENETUNREACH|ETIMEDOUT|network)`), "npm"},
	{lazyregexp.New(`(?m)(?:^go: |@v[0-9][^ ]*: ).*(?:dial tcp|module lookup disabled)`), "go"},
}

// Lacking finds in the output of a command that failed what its sandbox did not have. A
// library that is named comes before a command, and both before an installer.
func Lacking(output string) (Lack, bool) {
	for _, l := range lacks {
		name := last(l.re, output)
		switch l.lang {
		case api.Python:
			name, _, _ = strings.Cut(name, ".")
		case api.JavaScript:
			name = jsPackage(name)
		case api.Go:
			if name != "" && len(name) <= maxName {
				return Lack{Language: l.lang, Name: name}, true
			}
			continue
		}
		if name != "" && len(name) <= maxName && plainName.MatchString(name) {
			return Lack{Language: l.lang, Name: name}, true
		}
	}
	for _, i := range installers {
		if i.re.MatchString(output) {
			return Lack{Installer: i.name}, true
		}
	}
	return Lack{}, false
}
