package oci

import "strings"

// own are the users and groups that a sandbox needs, in the form of passwd and group.
var (
	ownUsers = []string{
		"root:x:0:0:root:/root:/bin/sh",
		"user:x:1000:1000:user:/home/user:/bin/sh",
		"hortus:x:65533:65533:hortus guest:/nonexistent:/usr/sbin/nologin",
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
	}
	ownGroups = []string{"root:x:0:", "user:x:1000:", "hortus:x:65533:", "nogroup:x:65534:"}
)

// complete adds the lines whose names a file does not have.
func complete(text string, own []string) string {
	have := map[string]bool{}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, ":")
		have[name] = true
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, line := range own {
		if name, _, _ := strings.Cut(line, ":"); !have[name] {
			text += line + "\n"
		}
	}
	return text
}
