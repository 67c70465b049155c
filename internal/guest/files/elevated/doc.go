// Package elevated changes files with the rights of the sandbox's root on behalf of a user,
// without letting the user lead these rights elsewhere.
//
//	f, err := elevated.Files{User: user}.Create("/etc/motd") // on a thread that is root
//
// The user may replace any name in directories of its own at any time, so a path is walked
// by descriptors, one name at a time; a link is followed, and a name made, only in
// directories that the user cannot write. The descriptors of a walk are closed before a
// call returns. The package knows no request and does not switch ids: the caller does.
package elevated
