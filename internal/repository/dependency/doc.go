// Package dependency says how the dependencies of a commit are installed.
//
// [Detect] reads lock files, also those in subdirectories: npm, pnpm, yarn, pip, uv, Poetry, Go modules,
// Cargo, Bundler, Composer and Maven. A manifest of npm or Python without a lock file is installed too, with a
// warning. pnpm, yarn, uv and Poetry are installed by a step of their own. [ParseRecipe] reads .hortus/setup.yaml, with which a repository describes its setup
// itself. Both give a [Plan]: small named steps, each with its own timeout and retries. [Plan.Key] names the
// result: only the files that decide what is installed are in it, so that a push that changes others has the
// same key.
//
//	plan, err := dependency.Of(dependency.Tree{Paths: paths, Read: read})
//	for _, s := range plan.Steps {
//		fmt.Println(s.Name, s.Run) // npm ci
//	}
//	key := plan.Key("account", "https://git.example.org/team/shop", "main", "host-4f2a...")
//
// # Untrusted data
//
// The files are those of a repository. Their number, sizes and depths are limited. A detected command is
// constant but for the version of a package manager and the requirements of a Python project, which must match strict
// patterns. Its directory is not read by a shell. A recipe's
// commands are the repository's own; they run in a sandbox.
//
// The package must not know sandboxes, git or tasks. It runs nothing and keeps nothing.
package dependency
