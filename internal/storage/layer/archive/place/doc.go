// Package place opens the archive of layers that a setting names: a directory or an object store.
//
//	a, err := place.Open("s3://builds/layers?region=eu-west-1")
//	err = a.Check(ctx)
//
// The package must not know the store of layers. It reaches neither of them and holds nothing.
package place
