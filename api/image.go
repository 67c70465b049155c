package api

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Image is a container image that sandboxes can start from.
type Image struct {
	// ID is the name of the template, or else 12 hex digits derived from the reference.
	ID string `json:"id"`
	// Reference is the complete reference, with registry and tag, or the path of the file or
	// directory that it was read from.
	Reference string `json:"reference"`
	// Name is the template's; empty for an image that was only used by its reference.
	Name string `json:"name,omitempty"`
	// Digest is that of the manifest for this platform, or of the configuration if the
	// source had no manifest. It does not change until the image is pulled again.
	Digest   string `json:"digest"`
	Platform string `json:"platform"`
	// Layers are the layers of its sandboxes, the lowest first.
	Layers []string `json:"layers"`
	// Bytes is the size of its files. Layers that several images share count in each.
	Bytes int64 `json:"bytes"`
	// Skipped counts devices and pipes that were not unpacked, Dropped setuid bits and
	// extended attributes that were not kept.
	Skipped int `json:"skipped,omitempty"`
	Dropped int `json:"dropped,omitempty"`
	// Command is the entrypoint and its arguments, which run if no command is given; Entrypoint
	// is its first part alone, which a command that is given replaces too. User
	// and WorkingDir are the defaults of commands, Env the names of the environment
	// variables that the image sets.
	Command    []string `json:"command,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	User       string   `json:"user"`
	WorkingDir string   `json:"workingDir,omitempty"`
	Env        []string `json:"env,omitempty"`
	// Isolation is the default of sandboxes that start from the template; empty for none.
	Isolation string    `json:"isolation,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	UsedAt    time.Time `json:"usedAt"`
}

// PullImage is a request to make an image available.
type PullImage struct {
	// Reference names an image of a registry, such as python:3.12, or is the absolute path,
	// on the daemon's machine, of a docker save archive or an OCI layout.
	Reference string `json:"reference"`
	// Name makes it a template. An existing template of the name is replaced if it is an
	// image's.
	Name string `json:"name,omitempty"`
	// Isolation is a backend, or "auto", for sandboxes that start from the template and name none. It needs a Name.
	Isolation string `json:"isolation,omitempty"`
	// Refresh resolves the tag again if the image is there. Paths and new templates are
	// always read again.
	Refresh bool `json:"refresh,omitempty"`
}

// FromFile reports whether the reference is a path on the daemon's machine.
func (r PullImage) FromFile() bool { return strings.HasPrefix(r.Reference, "/") }

// ImageLine is one line of the answer to a pull. Type says which other field is set.
type ImageLine struct {
	Type  LineType `json:"type"`
	Step  string   `json:"step,omitempty"`
	Image *Image   `json:"image,omitempty"`
	Error *Problem `json:"error,omitempty"`
}

// LineType says what a line of an answer in lines is. Each answer ends with one line that is done
// or an error; one without it was cut off.
type LineType string

const (
	LineStep  LineType = "step"
	LineDone  LineType = "done"
	LineError LineType = "error"
	// LineOutput is what a step printed.
	LineOutput LineType = "output"
	// LineWaiting is what a request waits for.
	LineWaiting LineType = "waiting"
)

// maxImageName is the maximum length of what names an image, in bytes.
const maxImageName = 512

// ValidImageName reports whether s can name an image: by its template, its ID or its
// reference. It does not parse references.
func ValidImageName(s string) bool {
	return s != "" && len(s) <= maxImageName && s != "." && s != ".." && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
