// Package toolchain says which toolchains a repository names, in which version, and whether a template has them.
//
//	needs := toolchain.Read(dependency.Tree{Paths: paths, Read: read})
//	for _, r := range needs.Check(report, "cargo", "npm") { // programs that the gate and the setup call
//		fmt.Println(r.Program, r.Missing, r.Fix)
//	}
//
// It reads .tool-versions, .sdkmanrc, rust-toolchain, .nvmrc and its like, go.mod, Cargo.toml, package.json, pyproject.toml, pom.xml,
// devcontainer.json and a Dockerfile at the top of the repository.
//
// # Untrusted data
//
// The files are those of a repository: a bounded part of each is read, and a name, a version or an image that does not have the
// form of one is left out. Nothing of them is run. The command of a devcontainer is for people to read.
//
// The package must not know sandboxes, git or tasks. It keeps nothing.
package toolchain
