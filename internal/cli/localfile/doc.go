// Package localfile writes files on this machine whose names and contents come from a
// sandbox. It knows nothing else.
//
//	root, err := os.OpenRoot(dir)
//	err = localfile.Write(root, name, 0o644, content)
//
// Nothing is written outside the root or through a link, names with control characters are
// refused, and blocks of zeros become holes.
package localfile
