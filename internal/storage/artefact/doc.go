// Package artefact keeps directories of large files in blobs that several hosts share: saved states of sandboxes, which one host stores
// and another one opens.
//
//	s, err := artefact.New(artefact.Config{Blobs: blobs, Key: key})
//	saved, err := s.Save(ctx, id, dir, names, nil)           // on one host
//	err = s.Restore(ctx, saved.Ref, id, limit, emptyDir)     // on another one
//	err = s.Remove(ctx, saved.Ref)
//
// # Objects
//
// The pages of the files, of 4 KiB, are collected into chunks. A chunk is compressed, encrypted and stored under the SHA-256 of what is
// stored. Pages of zeros are not stored; nor are those that the parent has, another artefact with similar files: the new one refers to chunks
// of it. The manifest says where each page is. It is stored last, compressed and encrypted, under its own SHA-256, which is the [Ref]: who
// keeps a Ref in a place that is trusted, such as a row of a database, gets what was stored or an error. An artefact whose manifest is not
// there does not exist.
//
//	snapshot-ID-DIGEST.chunk
//	snapshot-ID-DIGEST.manifest
//
// ID follows from the key, and "snapshot" is the kind. Stores with different keys or kinds in one place do not touch what the others have.
//
// # Trust
//
// The blobs are less trusted than the host: who can write to them can remove objects, and nothing else. Sizes are checked before anything is
// read or decompressed, names are no paths, and every object is compared with its digest before it is decrypted. Who can read the blobs sees the
// number of objects, their sizes and times. The key opens everything.
//
// # Removal
//
// Remove removes a manifest. [Store.Collect] removes objects that no manifest names, and manifests that no row names, if it has seen them so for
// an hour ([Grace]). Save ends within half of that ([SaveWithin]), so what it refers to stays. There is no lock, and no host must be the only
// one that collects.
//
// The package must not know what the files are. It has no goroutines of its own; Save and Restore wait for those that they start.
//
// # Reasons
//
// A page is the unit of comparison because memory that is saved again has the same pages in other positions: with whole chunks, one page that was
// added would change all that follow. A chunk is the unit of storage because an object costs a request. One MiB is where a fetch was fastest; see
// decision 0147 for the figures. A chunk of the parent of which less than a quarter is used is not referred to, so that a chain of
// artefacts does not need the remains of all its ancestors.
package artefact
