// Package export writes container images as archives that other tools read.
//
// An archive is both an OCI image layout and what docker save writes: all versions of Docker,
// Podman and skopeo read one of these forms, and so does package source.
//
//	err := export.Write(ctx, w, export.Image{Name: "py:latest", Architecture: "amd64", Layers: layers})
//
// The digest and the size of a layer precede its content, so each layer is written twice: once
// to compute them, then into the archive. Nothing is stored in between, in memory or on disk.
// Write has nothing to clean up after an error, and everything that can fail because of the
// image fails before the first byte is written.
//
// The package must not know layers of the store. It holds no state and no goroutine.
package export
