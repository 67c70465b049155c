// Package build builds templates from steps: environment, files, commands, directories and users.
//
//	files, err := build.OpenFiles(build.FilesConfig{Dir: dir, CheckSpace: space.CheckOf})
//	b := build.New(build.Config{Sandboxes: guarded, Files: files, Contents: tools.Contents, Images: images})
//	defer b.Close(ctx)
//	s, err := b.Build(ctx, req, func(l build.Line) { fmt.Println(l.Text) })
//
// The steps run in a sandbox of the caller's account, which ends with the build. After each step
// that can change files the sandbox is saved. The key of this snapshot is a digest of what the
// build starts from and of all steps up to there, with the contents of copied files. A later build
// of the account continues from the last snapshot whose key it has; if all keys are equal it runs
// nothing. Snapshots without a name are this cache, and the package bounds them.
//
// # Secrets and users
//
// A RUN with secrets runs in a sandbox of its own, which is granted them and ends after it was saved:
// its placeholders are worth nothing afterwards. After a USER that only /etc/passwd names, the
// following steps run in a new sandbox too, which knows this user.
//
// # Hostile files
//
// [Files] keeps what clients upload. An archive is read, checked and stored as one file with an
// index: nothing in it becomes a path of the host. COPY sends files from there to the guest.
//
// # Lives
//
// A build lives as long as the context of its caller. [Builder.Start] is for callers that come
// back later: it runs a build in a goroutine of the builder, which keeps its log for an hour. A daemon that ends forgets
// these. Close cancels them and waits.
//
// The package must not know HTTP, Dockerfiles, a backend or a database. It takes the account from
// the context, and leaves access checks to the interfaces that it calls.
package build
