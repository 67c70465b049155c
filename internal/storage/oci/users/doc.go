// Package users finds the users of a tree of files in its passwd and group.
//
//	u, err := users.Find("app:staff", passwd, group)
//
// The files are not trusted: what is malformed is not found, and no user has the ID of a guest. The
// package must not know where they are. It holds nothing.
package users
