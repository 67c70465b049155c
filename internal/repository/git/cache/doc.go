// Package cache keeps the daemon's copies of remote repositories.
//
// A [Cache] holds one bare repository for each remote, below one directory.
// [Cache.Fetch] creates or updates it and returns a [Repo]. A Repo resolves commits,
// writes them out as work trees, creates commits from changed files, merges, compares,
// bundles and pushes.
//
// What is hostile: the server, every object and ref that it sends, a source that is a
// path (package shadow), and every path, mode, link and byte of a [Change]. Objects are
// checked by git's fsck before they get a name. A file that an agent changed is refused,
// ignored or committed, and [CommitResult] lists which. All sizes are bounded.
//
// Several fetches of one repository at the same time are one: see [Cache.Update]. A fetch
// lists the refs first and asks for objects only if one has changed.
//
// A repository is written only under its lock. The git processes of the writer hold the
// lock too, so that it is not free while the git of a dead daemon still runs. A first
// fetch is written to a temporary directory and renamed. The next writer removes what a
// killed one left. No object is removed, so readers need no lock; packs that a commit has
// joined are replaced, which git allows for. [Cache.Remove] deletes a repository.
//
// Trees, commits and packs are encoded here, and objects are read by one process of git: a
// merge starts five processes, whose start would be most of its time. What is encoded here
// enters the repository through git's index-pack, which computes the names again and checks
// each object.
//
// [Repo.Merge] brings the changes of a commit onto another one, and loses none of them: what
// it cannot merge is a conflict. The content of a commit cannot decide how it is merged. So
// it does not use git merge-tree, which needs git 2.38, takes a base from 2.40 on, and reads
// the attributes of HEAD in 2.43 and 2.44: paths are merged here, and lines by git
// merge-file. Its result is compared with the edits of both sides, applied to the base here.
// Renames are not followed, since their detection is a guess that can put a change into the
// wrong file.
//
//	c, err := cache.Open(cache.Config{Dir: "/var/lib/hortus/repositories"})
//	if err != nil {
//		return err
//	}
//	r, err := c.Fetch(ctx, git.Source{URL: "https://example.org/o/r"}, nil)
//	if err != nil {
//		return err
//	}
//	commit, err := r.Resolve(ctx, "main")
//
// The package must not know what a layer, a sandbox, a task or a forge is.
package cache
