package api

import (
	"slices"
	"strings"
)

// HostTemplate is the name of the template that is always there: this machine's own
// tools, filtered and read-only.
const HostTemplate = "host"

// Template is something that sandboxes start from by its name.
type Template struct {
	Name string `json:"name"`
	// Snapshot or Image is what sandboxes of it start from; HostTemplate has neither.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Image    *Image    `json:"image,omitempty"`
}

// TemplateReport is what the host template holds.
type TemplateReport struct {
	Name        string `json:"name"`
	Digest      string `json:"digest"`
	Fingerprint string `json:"fingerprint"`
	Tools       []Tool `json:"tools"`
	// Libraries are what programs can import: the common ones, whether they are
	// there or not, then everything else that is there. They are known for the
	// languages in Asked; those, and the versions of Tools, come from programs
	// that were asked inside a sandbox.
	Libraries []Library  `json:"libraries,omitempty"`
	Asked     []Language `json:"asked,omitempty"`
	// NotAsked is why versions and libraries are not known.
	NotAsked string `json:"notAsked,omitempty"`
	// Hidden counts host files that are masked: not world-readable, setuid,
	// setgid, devices and sockets.
	Hidden int    `json:"hidden"`
	Error  string `json:"error,omitempty"`
	// Toolchains are those that version managers keep outside /usr, shown or not.
	Toolchains []Toolchain `json:"toolchains,omitempty"`
}

// Toolchain is a toolchain of the daemon's machine outside /usr.
type Toolchain struct {
	Name    string `json:"name"` // such as rust or node
	Version string `json:"version"`
	Path    string `json:"path"`  // on the daemon's machine; an admin's answer only
	Shown   bool   `json:"shown"` // sandboxes have it, at /opt/NAME
	// Setting is what the setting daemon.toolchains takes it with.
	Setting string `json:"setting"`
}

// Tool is a program that commands in a sandbox can use.
type Tool struct {
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"` // inside the sandbox
	Present bool   `json:"present"`
	Version string `json:"version,omitempty"` // numbers and dots; empty when not known
	// Install is a command for this machine that brings what is not there.
	Install string `json:"install,omitempty"`
}

// Library is a package that a program can import.
type Library struct {
	Language Language `json:"language"`
	Name     string   `json:"name"` // as its language's package index has it
	Version  string   `json:"version,omitempty"`
	Present  bool     `json:"present"`
	Common   bool     `json:"common,omitempty"`
	// Install is a command for this machine that brings what is not there.
	Install string `json:"install,omitempty"`
}

// Missing returns those of a plan's dependencies that a sandbox of the template
// lacks. A dependency is a name as in ExecutionPlan.Dependencies, with or without
// a version, which is not looked at. Where it is not known what is there, nothing
// is missing.
func (r TemplateReport) Missing(l Language, dependencies []string) []Library {
	if !slices.Contains(r.Asked, l) {
		return nil
	}
	var out []Library
	for _, d := range dependencies {
		name := libraryName(d)
		if name == "" {
			continue
		}
		missing := Library{Language: l, Name: name}
		i := slices.IndexFunc(r.Libraries, func(x Library) bool { return x.Language == l && SameLibrary(l, x.Name, name) })
		switch {
		case i < 0:
		case r.Libraries[i].Present:
			continue
		default:
			missing = r.Libraries[i]
		}
		if !slices.Contains(out, missing) {
			out = append(out, missing)
		}
	}
	return out
}

// libraryName takes the version and what else may follow from a dependency.
func libraryName(d string) string {
	d = strings.TrimSpace(d)
	if d == "" {
		return ""
	}
	// The first character may be the @ of a scope.
	if i := strings.IndexAny(d[1:], "<>=!~;[ @("); i >= 0 {
		d = d[:i+1]
	}
	return d
}

// imported are names that programs import and that the index of packages knows
// by another.
var imported = map[string]string{
	"bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil", "pil": "pillow",
	"sklearn": "scikit-learn", "yaml": "pyyaml",
}

// SameLibrary reports whether two names mean one library: in Python the case does
// not count, nor which of "-", "_" and "." is written, and a library may be called
// by what programs import.
func SameLibrary(l Language, a, b string) bool {
	if l != Python {
		return a == b
	}
	return pythonName(a) == pythonName(b)
}

func pythonName(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return c == '-' || c == '_' || c == '.' }), "-")
	if n, ok := imported[s]; ok {
		return n
	}
	return s
}
