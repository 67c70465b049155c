// Package settings stores what an image says about the commands of its sandboxes: their
// environment, user and directory, and the command that is run if the request has none.
//
// The settings are a file of the image's top layer, beside its root. Anyone who has the layers of
// a sandbox, such as a backend that restores a snapshot, therefore has its settings:
//
//	s, err := settings.Read(store, digest) // nil for a layer that is not an image's
//
// Beside them is what the image itself says (Original), for its export.
//
// They were derived from an untrusted image when the layer was made, by package oci, which
// limits and validates them. The package must not know images or backends.
package settings
