package users

import (
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// GuestID is the ID of the guest in a sandbox, which no command may have.
const GuestID = 65533

// maxID is the largest user or group ID of a sandbox.
const maxID = 65534

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

// Find resolves a user by the contents of the files passwd and group: NAME, UID, NAME:GROUP or UID:GID. Empty means root.
//
// Errors: KindInvalid for one that is not there, or that no command may have.
func Find(user, passwd, group string) (api.UserRecord, error) {
	who, of, _ := strings.Cut(user, ":")
	if who == "" {
		who = "0"
	}
	refuse := func(why string) (api.UserRecord, error) {
		return api.UserRecord{}, api.Errorf(api.KindInvalid, "the user %.80q %s", user, why)
	}
	out := api.UserRecord{Home: "/"}
	line := fieldsOf(passwd, 6, func(f []string) bool { return f[0] == who })
	if line == nil {
		uid, ok := number(who)
		if !ok {
			return refuse("is not in /etc/passwd")
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
			return refuse("has an invalid ID in /etc/passwd")
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
			return refuse("has a group that is not in /etc/group")
		}
		out.GID = gid
	} else if line != nil {
		out.Groups = groupsOf(out.Name, out.GID, group)
	}
	if out.UID == GuestID || out.GID == GuestID {
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
		if n, ok := number(f[2]); ok && n != gid && n != GuestID && !slices.Contains(out, n) && len(out) < 32 {
			out = append(out, n)
		}
	}
	return out
}

func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n <= maxID
}
