// Package oci keeps the container images that sandboxes start from.
//
// [Images.Pull] reads an image (package source), unpacks each of its layers into a layer of the
// layer store (package unpack), and stores a record: which reference it was, the digest that it
// was resolved to, and its layers. Layers are named by the digest of their uncompressed archive,
// which is verified, so that images share them, and a layer that is there is not read again.
//
//	images, err := oci.Open(oci.Config{Dir: dir, Layers: store})
//	img, err := images.Pull(ctx, api.PullImage{Reference: "python:3.12"}, nil)
//	digests, err := images.Layers(img.Reference)
//
// Two layers lie above an image's own. The base has what every sandbox needs: directories for
// mounts, and the sandbox's sudo. The top has the image's users completed by those of Hortus, its
// working directory if it is missing, and its settings (package settings).
//
// Records are files of Dir, one for each image, written and renamed. An image stays until
// [Images.Remove]; [Images.Unused] lists those without a name that were not used for long. Layers
// are removed by the garbage collector of the layer store, which asks [Images.Named]; a pull holds
// leases on its layers until the record is stored.
//
// The package must not know sandboxes or backends, and mounts nothing. It holds no goroutine
// beyond a call, and nothing to close.
package oci
