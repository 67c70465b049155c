package repo

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
)

// products are the names of directories that package managers and build tools make by themselves, and of nothing else.
var products = []string{
	"node_modules", "bower_components", ".pnpm-store", ".parcel-cache", ".turbo", ".next", ".nuxt", ".nyc_output", ".svelte-kit",
	".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".eggs", ".ipynb_checkpoints",
	".gradle", ".dart_tool", ".terraform", ".bundle",
}

// marked are directories whose names have other uses too. One is a product if a file is there that its tool needs or writes,
// relative to the directory.
var marked = map[string][]string{
	"venv":          {"pyvenv.cfg"},
	"env":           {"pyvenv.cfg"},
	"target":        {"CACHEDIR.TAG", ".rustc_info.json", "../Cargo.toml", "../pom.xml"},
	"bundle":        {"../../Gemfile"},
	"_build":        {"../mix.exs", "../dune-project"},
	"build":         {"../build.gradle", "../build.gradle.kts", "CMakeCache.txt"},
	"cmake-build":   {"CMakeCache.txt"},
	".build":        {"../Package.swift"},
	"CMakeFiles":    {"../CMakeCache.txt"},
	"dist-newstyle": {"cache/plan.json"},
}

// written divides what is new in a workspace into what somebody wrote and what package managers and build tools made by
// themselves. A kind of directory that the base has is part of the repository, so nothing of it is left out but byte code that is new.
func (w *project) written(ctx context.Context, changes []cache.Change, refused []api.RefusedChange) ([]cache.Change, []api.RefusedChange, []api.LeftOut, error) {
	base, err := w.repo.Files(ctx, w.base.Hash)
	if err != nil {
		return nil, nil, nil, err
	}
	had, there, tracked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range base {
		had[f.Path], there[f.Path] = true, true
		for name := range strings.SplitSeq(f.Path, "/") {
			tracked[kindOf(name)] = true
		}
	}
	for _, c := range changes {
		there[c.Path] = there[c.Path] || !c.Delete
	}
	// product returns the directory of a path that a tool made.
	product := func(p string) string {
		for end, dir := range directories(p) {
			name := path.Base(dir)
			kind := kindOf(name)
			switch {
			case tracked[kind]:
			case slices.Contains(products, name) || kind != name:
				return p[:end]
			case name == "bundle" && path.Base(path.Dir(dir)) != "vendor":
			case slices.ContainsFunc(marked[name], func(m string) bool { return there[path.Join(dir, m)] }):
				return p[:end]
			}
		}
		// Python can prefer it to the source that was reviewed. The data of tests may have some.
		if gate.IsByteCode(p) && !had[p] && !gate.IsTest(p) {
			return p
		}
		return ""
	}
	count := map[string]int{}
	changes = slices.DeleteFunc(changes, func(c cache.Change) bool {
		dir := product(c.Path)
		if dir != "" {
			count[strings.ToValidUTF8(dir, "?")]++
		}
		return dir != ""
	})
	refused = slices.DeleteFunc(refused, func(r api.RefusedChange) bool {
		dir := product(r.Path)
		if dir != "" {
			count[dir]++
		}
		return dir != ""
	})
	var left []api.LeftOut
	for _, dir := range slices.Sorted(maps.Keys(count)) {
		left = append(left, api.LeftOut{Path: dir, Files: count[dir]})
	}
	return changes, refused, left, nil
}

// kindOf is the name under which a directory is known: that of its kind, if it names what it was made for.
func kindOf(name string) string {
	if strings.HasSuffix(name, ".egg-info") {
		return "*.egg-info"
	}
	return name
}

// directories are a path and the directories above it, from the highest, by where they end. A product can be a link.
func directories(p string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		for i := range len(p) + 1 {
			if (i == len(p) || p[i] == '/') && !yield(i, p[:i]) {
				return
			}
		}
	}
}
