// Package source reads container images: from a registry, from a tar archive of "docker save"
// (or an OCI layout in a tar archive), and from the directory of an OCI layout.
//
//	img, err := source.Open(ctx, "python:3.12", source.Config{})
//	defer img.Close()
//	r, err := img.Layers[0].Open(ctx)
//
// A reference that begins with "/" is a path of this machine; every other one names an image of
// a registry. A registry's credentials are those of the user's Docker configuration. Of an image
// for several platforms, that of this machine is chosen.
//
// Everything that is read is untrusted. Manifests and configurations are limited in size, blobs
// are verified by their digest where the source has one, and layers are returned as they are
// stored: the caller decompresses them, verifies [Layer.DiffID] and limits the size. In a
// directory, links are not followed.
//
// The package must not know layers, templates or the data directory.
package source
