package observe

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"unicode"

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
	// Installer is pip, npm, go or mvn if it is what failed, and the name is not known.
	Installer string
}

// Of is the language of what is missing; empty for a command.
func (l Lack) Of() api.Language {
	switch l.Installer {
	case "pip":
		return api.Python
	case "npm":
		return api.JavaScript
	case "go":
		return api.Go
	case "mvn":
		return api.Java
	}
	return l.Language
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
	{lazyregexp.New(`\bin offline mode and the artifact \S+ has not been downloaded`), "mvn"},
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

// noFile are the lines with which programs say that there is no such file.
var noFile = lazyregexp.New(`(?im)^.*(?:no such file|ENOENT|FileNotFoundError|does not exist|cannot (?:open|find|read|stat)).*$`)

// maxPath bounds the path of a file, in bytes.
const maxPath = 1 << 10

// NotFound returns what may be the paths of files that a program did not find, clean, in the order of its output: all words of the
// lines that say so.
func NotFound(output string) (paths []string) {
	separates := func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("\"'`‘’“”()[]<>,;:", c) }
	for _, line := range noFile.FindAllString(output, -1) {
		for word := range strings.FieldsFuncSeq(line, separates) {
			if word = path.Clean(strings.TrimSuffix(word, ".")); len(word) <= maxPath {
				paths = append(paths, word)
			}
		}
	}
	return paths
}

// Uninstall is why packages could not be installed.
type Uninstall struct {
	// Failed is true if an installer reported it.
	Failed bool
	// Installer is npm, pip or go.
	Installer string
	// Package is what could not be installed; it may be empty. It is the installer's own
	// word, and bounded.
	Package string
	// Absent is true if the registry has no such package or version. pip reports that too if the registry
	// was not reached through the wall: it does not print the status of an answer.
	Absent bool
	// Offline is true if the registry could not be reached.
	Offline bool
}

var (
	npmError   = lazyregexp.New(`(?m)^npm (?:ERR!|error)`)
	npmAbsent  = lazyregexp.New(`(?m)^npm (?:ERR!|error) (?:404 +'(@?[^'@\s]+)@[^']*' is not in th|notarget No matching version found for (@?[^@\s]+)@)`)
	npmCode    = lazyregexp.New(`(?m)^npm (?:ERR!|error) code (?:E404|ETARGET)`)
	npmOffline = lazyregexp.New(`(?m)^npm (?:ERR!|error) (?:code )?(?:EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|E403|network)`)
	npmURL     = lazyregexp.New(`(?m)^npm (?:ERR!|error) .*https?://[^/\s]+/(?:\S*/)?(@[\w.-]+(?:%2[fF]|/)[\w.-]+|[\w.-]+)(?: - | failed|$)`)

	pipAbsent  = lazyregexp.New(`(?m)^ERROR: No matching distribution found for ([A-Za-z0-9][\w.-]*)`)
	pipOffline = lazyregexp.New(`(?m)after connection broken by|Failed to establish a new connection|NewConnectionError|NameResolutionError|Tunnel connection failed|403 Client Error`)
	pipNone    = lazyregexp.New(`(?m)No module named '?pip'?\s*$|pip3?: (?:command )?not found|externally-managed-environment`)

	goMissing = lazyregexp.New(`(?m)(?:module |: )([A-Za-z0-9][\w-]*(?:\.[\w-]+)+(?:/[\w.~-]+)*)(?:@[^:\s]+)?: (?:reading|module|no matching|cannot find|unrecognized|invalid|Get|git|dial|malformed)`)
	goAbsent  = lazyregexp.New(`(?m)404 Not Found|410 Gone|no matching versions|cannot find module providing|but does not contain package|repository not found`)
	goOffline = lazyregexp.New(`(?m)^\s*(?:go: ).*(?:dial tcp|no such host|module lookup disabled|connection refused|403 Forbidden)|@v[/0-9][^ ]*: .*(?:dial tcp|no such host|module lookup disabled|403 Forbidden)`)
)

// Uninstalled finds in the output of an install command that failed what could not be
// installed, and why.
func Uninstalled(l api.Language, output string) Uninstall {
	u := Uninstall{}
	switch {
	case npmError.MatchString(output):
		u = Uninstall{Failed: true, Installer: "npm", Absent: npmCode.MatchString(output), Offline: npmOffline.MatchString(output)}
		u.Package = jsPackage(strings.NewReplacer("%2f", "/", "%2F", "/").Replace(cmp.Or(last(npmAbsent, output), second(npmAbsent, output), last(npmURL, output))))
	case pipOffline.MatchString(output) && l == api.Python, pipAbsent.MatchString(output):
		u = Uninstall{Failed: true, Installer: "pip", Offline: pipOffline.MatchString(output), Package: last(pipAbsent, output)}
		u.Absent = !u.Offline
	case l == api.Python && pipNone.MatchString(output):
		u = Uninstall{Failed: true, Installer: "pip"}
	case l == api.Go && (goAbsent.MatchString(output) || goOffline.MatchString(output)):
		u = Uninstall{Failed: true, Installer: "go", Offline: goOffline.MatchString(output), Package: last(goMissing, output)}
		u.Absent = !u.Offline
		if len(u.Package) > maxName {
			u.Package = ""
		}
		return u
	}
	if len(u.Package) > maxName || !plainName.MatchString(u.Package) {
		u.Package = ""
	}
	return u
}

// second is last for the second group.
func second(re *lazyregexp.Regexp, text string) string {
	all := re.FindAllStringSubmatch(text, -1)
	if all == nil {
		return ""
	}
	return all[len(all)-1][2]
}

// absentBegins is how a Sentence begins if the registry does not have the package.
const absentBegins = "the registry of "

// Absent reports whether a Sentence says that the registry does not have the package.
func Absent(sentence string) bool { return strings.HasPrefix(sentence, absentBegins) }

// Sentence says why the packages could not be installed. closed is why the command could not
// connect to anything; empty if it could.
func (u Uninstall) Sentence(closed string) string {
	what := "the packages"
	if u.Package != "" {
		what = "the package " + u.Package
	}
	switch {
	case closed != "" && !(u.Absent && u.Installer != "pip"):
		return fmt.Sprintf("%s could not be installed: %s", what, closed)
	case u.Offline:
		return fmt.Sprintf("%s could not be installed: the install phase cannot reach the registry of %s", what, u.Installer)
	case u.Absent && u.Installer == "pip":
		return fmt.Sprintf("pip found no package %s, or no version of it that fits: the registry does not have it, or could not be reached", u.Package)
	case u.Absent && u.Package != "":
		return fmt.Sprintf(absentBegins+"%s has no package %s, or no version of it that fits", u.Installer, u.Package)
	case u.Absent:
		return fmt.Sprintf(absentBegins+"%s does not have a package that was requested", u.Installer)
	case u.Installer == "pip":
		return "the packages could not be installed: the sandbox has no pip; on Debian: apt-get install python3-pip on the daemon's machine"
	}
	return fmt.Sprintf("%s could not be installed", what)
}
