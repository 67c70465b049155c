package oci

import (
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/storage/oci/settings"
)

// guestID is the ID of the guest in a sandbox, which no command may have.
const guestID = 65533

// maxID is the largest user or group ID of a sandbox.
const maxID = 65534

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

// fieldsOf returns the fields of the first line that a condition holds for.
func fieldsOf(text string, n int, is func(f []string) bool) []string {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) >= n && is(f) {
			return f
		}
	}
	return nil
}

// userOf resolves the USER of an image: NAME, UID, NAME:GROUP or UID:GID. Empty means root.
func userOf(user, passwd, group string) (settings.User, error) {
	who, of, _ := strings.Cut(user, ":")
	if who == "" {
		who = "0"
	}
	refuse := func(why string) (settings.User, error) {
		return settings.User{}, api.Errorf(api.KindInvalid, "the user %.80q of the image %s", user, why)
	}
	out := settings.User{Home: "/"}
	line := fieldsOf(passwd, 6, func(f []string) bool { return f[0] == who })
	if line == nil {
		uid, ok := number(who)
		if !ok {
			return refuse("is not in its /etc/passwd")
		}
		line = fieldsOf(passwd, 6, func(f []string) bool { return f[2] == strconv.Itoa(int(uid)) })
		out.Name, out.UID, out.GID = who, uid, 0
		if line == nil && uid == 0 {
			out.Name, out.Home = "root", "/root"
		}
	}
	if line != nil {
		uid, ok := number(line[2])
		gid, gok := number(line[3])
		if !ok || !gok {
			return refuse("has an invalid ID in its /etc/passwd")
		}
		out.Name, out.UID, out.GID = line[0], uid, gid
		if strings.HasPrefix(line[5], "/") {
			out.Home = line[5]
		}
	}
	if of != "" {
		gid, ok := number(of)
		if g := fieldsOf(group, 3, func(f []string) bool { return f[0] == of }); g != nil {
			gid, ok = number(g[2])
		}
		if !ok {
			return refuse("has a group that is not in its /etc/group")
		}
		out.GID = gid
	} else if line != nil {
		out.Groups = groupsOf(out.Name, out.GID, group)
	}
	if out.UID == guestID || out.GID == guestID {
		return refuse("has the ID of the guest of sandboxes, 65533")
	}
	if len(out.Name) > 32 || strings.ContainsAny(out.Name, "\x00/: \t\n") || len(out.Home) > 1024 || strings.ContainsAny(out.Home, "\x00\n") {
		return refuse("has an invalid name or home directory")
	}
	return out, nil
}

// groupsOf returns the supplementary groups of a user.
func groupsOf(name string, gid uint32, group string) (out []uint32) {
	for line := range strings.Lines(group) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			continue
		}
		if n, ok := number(f[2]); ok && n != gid && n != guestID && !slices.Contains(out, n) && len(out) < 32 {
			out = append(out, n)
		}
	}
	return out
}

func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n <= maxID
}
