// Package ocitest makes container images for tests: from entries of tar archives and a
// configuration, as a docker save archive, as an OCI layout, and in a registry of this process.
//
//	img := ocitest.Image(t, config, ocitest.Layer(t, ocitest.File("etc/motd", "hello")))
//	ocitest.Save(t, path, img)
//
// The package is for tests alone.
package ocitest
