// Package copied gives a sandbox a workspace that its backend cannot mount. The files are copied into the sandbox by its guest before its
// first command, and what has changed is copied back before its end.
//
//	files, err := copied.Attach(ctx, cfg, spec, dir)
//	err = files.Fill(ctx, guest)  // after the start of the guest
//	err = files.Store(ctx, guest) // before its end
//	files.Release()
//
// The sandbox needs a POSIX shell, GNU tar and GNU find. Changes are lost if the guest ends by itself, or if the sandbox is destroyed by
// others; the workspace then has the files of the last start.
//
// Everything that comes back was written by the guest, and is read as such: [workspace.Lease.Replace] takes regular files, directories and
// links below the workspace only, up to the quota.
//
// The package must not know services or engines.
package copied
