// Package shadow reads repositories on this machine that another user wrote.
//
// Such a [Repository] is hostile: its configuration, hooks, attributes and links could
// run programs or lead out of it. No command of git runs in it. [Repository.Shadow]
// instead makes a bare repository of our own that has copies of its refs and borrows its
// objects, and git runs there. [Repository.Receive] adds a commit and a branch: the
// objects arrive through a shadow, and only update-ref runs in the repository itself,
// with hooks turned off.
//
// A Repository has nothing to close. The caller names the directory of a shadow, and
// removes it.
//
//	r, err := shadow.Open(program, ctx, "/home/alice/project", nil)
//	if err != nil {
//		return err
//	}
//	err = r.Shadow(ctx, filepath.Join(temp, "shadow"), true)
//
// The package must not know the cache or a user's configuration of git.
package shadow
