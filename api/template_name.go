package api

import (
	"slices"
	"strings"
)

const (
	// DefaultTag is the tag of a name that has none: web is web:default.
	DefaultTag = "default"
	// MaxTag is the maximum length of a tag, in bytes.
	MaxTag = 128
	// MaxTemplateNames is the maximum number of names of a template.
	MaxTemplateNames = 64

	// maxTemplateName is the maximum length of a name without its tag, in bytes.
	maxTemplateName = 63
)

// SplitTemplateName returns a name of a template without its tag, and the tag.
func SplitTemplateName(name string) (base, tag string) {
	base, tag, tagged := strings.Cut(name, ":")
	if !tagged {
		tag = DefaultTag
	}
	return base, tag
}

// JoinTemplateName returns the name of a template with a tag, as rows have it: without the tag
// default.
func JoinTemplateName(base, tag string) string {
	if tag == DefaultTag {
		return base
	}
	return base + ":" + tag
}

// ValidTag reports whether a tag is 1 to 128 letters, digits, "_", "." and "-", beginning with a
// letter, a digit or "_".
func ValidTag(tag string) bool {
	if tag == "" || len(tag) > MaxTag || tag[0] == '.' || tag[0] == '-' {
		return false
	}
	return strings.Trim(tag, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

// ValidSnapshotName reports whether s can name a snapshot: by a template with or without a tag, or by
// an ID or its beginning.
func ValidSnapshotName(s string) bool {
	base, tag := SplitTemplateName(s)
	return base != "" && base[0] != '-' && len(base) <= maxTemplateName && strings.Trim(base, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && ValidTag(tag)
}

// Names returns the names of the templates that the snapshot is, the one without a tag first; none
// for a plain snapshot.
func (s Snapshot) Names() []string {
	if s.Name == "" {
		return nil
	}
	return append([]string{s.Name}, s.OtherNames...)
}

// SetNames sets Name and OtherNames.
func (s *Snapshot) SetNames(names []string) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	s.Name, s.OtherNames = "", nil
	if len(names) > 0 {
		s.Name, s.OtherNames = names[0], slices.Clip(names[1:])
	}
	if len(s.OtherNames) == 0 {
		s.OtherNames = nil
	}
}

// HasName reports whether the snapshot is the template of a name. web and web:default are the same.
func (s Snapshot) HasName(name string) bool {
	return slices.Contains(s.Names(), JoinTemplateName(SplitTemplateName(name)))
}
