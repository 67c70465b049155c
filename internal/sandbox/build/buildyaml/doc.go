// Package buildyaml reads a hortus.yaml, a short form of a Dockerfile, as steps of a build.
//
//	req, err := buildyaml.Parse(text, name)
//
// The steps are carried out in the order of the keys. An unknown key is an error with its line. The
// text is not trusted. The package must not know sandboxes. It holds nothing.
package buildyaml
