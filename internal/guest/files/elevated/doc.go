// Package elevated changes files with the rights of the sandbox's root on behalf of a user,
// who cannot redirect these rights to other files.
//
//	f, err := elevated.Files{User: user}.Create("/etc/motd") // on a thread that is root
//
// The user may replace any name in its own directories at any time, so a path is walked by
// descriptors, one name at a time. Links are followed, and names created, only in directories
// that the user cannot write. The descriptors of a walk are closed before a call returns. The
// package must not depend on requests and does not switch ids: the caller does.
//
// # Reasons
//
// E2B's guest works as root, and programs rely on writing outside of the home. The user's
// rights are tried first; root's are used for clients of E2B's wire only, so that code inside
// cannot lend them by a link.
package elevated
