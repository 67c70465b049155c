package observe

import (
	"cmp"
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/lazyregexp"
)

// Uninstall is why packages could not be installed.
type Uninstall struct {
	// Failed is true if an installer reported it.
	Failed bool
	// Installer is npm, pip or go.
	Installer string
	// Package is what could not be installed; it may be empty. It is the installer's own
	// word, and bounded.
	Package string
	// Absent is true if the registry answered that it has no such package or version.
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
	case u.Absent && u.Package != "":
		return fmt.Sprintf(absentBegins+"%s has no package %s, or no version of it that fits", u.Installer, u.Package)
	case u.Absent:
		return fmt.Sprintf(absentBegins+"%s does not have a package that was requested", u.Installer)
	case u.Installer == "pip":
		return "the packages could not be installed: the sandbox has no pip; on Debian: apt-get install python3-pip on the daemon's machine"
	}
	return fmt.Sprintf("%s could not be installed", what)
}
