// Package modules writes a directory tree that resembles an installed node_modules: packages with their scopes,
// nested directories, links to programs, and files whose sizes and compressibility are those of a real tree of
// 44,227 files in 4,043 directories with 640 MB, of which zstd -3 leaves 145 MB.
//
// The tree depends on nothing but the number of its files. The package knows nothing of what is measured with it.
//
//	info, err := modules.Write(ctx, dir, modules.Files)
package modules
