package filerule

import (
	"strings"

	"hortus.dev/api"
)

// ForWorkspace returns a file policy for a workspace with several repositories: a glob that names a path from the root of
// the repository counts for each, and from the root of the workspace too.
func ForWorkspace(p api.FilePolicy, dirs []string) api.FilePolicy {
	return eachGlob(p, func(except, glob string) []string {
		out := []string{except + glob}
		if rooted(glob) {
			for _, dir := range dirs {
				out = append(out, except+dir+"/"+strings.TrimPrefix(glob, "/"))
			}
		}
		return out
	})
}

// ForRepository returns a file policy for one of several repositories, with globs relative to it.
func ForRepository(p api.FilePolicy, dir string) api.FilePolicy {
	return eachGlob(p, func(except, glob string) []string {
		out := []string{except + glob}
		if rest, mine := strings.CutPrefix(strings.TrimPrefix(glob, "/"), dir+"/"); mine && rest != "" {
			out = append(out, except+"/"+rest)
		}
		return out
	})
}

// rooted reports whether a glob is a path from the root.
func rooted(glob string) bool { return strings.Contains(strings.TrimSuffix(glob, "/"), "/") }

// eachGlob replaces each glob of a policy in its place.
func eachGlob(p api.FilePolicy, f func(except, glob string) []string) api.FilePolicy {
	replace := func(globs []string) (out []string) {
		for _, g := range globs {
			except := ""
			if rest, ok := strings.CutPrefix(g, "!"); ok {
				except, g = "!", rest
			}
			out = append(out, f(except, g)...)
		}
		return out
	}
	return api.FilePolicy{OffLimits: replace(p.OffLimits), ReadOnly: replace(p.ReadOnly), Writable: replace(p.Writable)}
}
