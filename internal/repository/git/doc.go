// Package git drives the git program over repositories, trees and patches that
// nobody trusts.
//
// A [Cache] holds one bare repository for each remote that was named, below one
// directory. [Cache.Fetch] brings it up to date and gives a [Repo]; a Repo finds
// commits, writes them out as work trees of their own, builds new commits from the
// files that somebody changed, compares, bundles and pushes. A [Person] has
// checkouts of their own, which are looked at and, by [Person.Apply] and
// [Person.Import] alone, changed.
//
// What is hostile: the server, every object and ref that it sends, a checkout that
// is named by its path (its configuration, hooks, attributes, links), and every
// path, mode, link and byte that a [Change] brings. So
//
//   - git runs with an environment, a home and a configuration of our own, and may
//     speak only the one protocol that a source needs;
//   - no command runs in a repository that somebody else wrote: its refs and
//     objects are shown to git through a directory of ours (see shadow), so that its
//     configuration has no say. Only update-ref does, with hooks turned off, where a
//     branch is put into the repository of the person who asked. Who that person is and
//     what their remotes are called is read by two commands that only read a
//     configuration (see environOf);
//   - whatever comes in is checked by git's own fsck before it has a name;
//   - what an agent changed is refused, ignored or committed, and the answer lists
//     which; nothing is dropped in silence;
//   - every size is bounded, and a context that ends takes the whole group of git's
//     processes with it.
//
// The package must not know what a layer, a sandbox, a task or a forge is.
//
// A repository in the cache is written only by who holds its lock, which git's own
// processes hold as well, so that a dead daemon's git keeps others out until it is
// gone too. Objects are only ever added; readers need no lock. A first fetch is
// written aside and renamed. Everything that a kill leaves behind is removed by the
// next one that writes.
package git
