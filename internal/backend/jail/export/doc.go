// Package export exports templates as container images: images that were pulled, and sandboxes of
// them that were saved with their files.
//
//	t := export.Templates{Images: images, Snapshots: snapshots}
//	err := t.ExportSnapshot(ctx, snapshot, w)
//
// What a sandbox wrote is converted while it is written, and nothing of it becomes a file of the
// host. The package must not know servers or the manager of sandboxes. It holds nothing.
package export
