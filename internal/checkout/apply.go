package checkout

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// Touched gives the paths that a patch changes, both names of a renamed file. Git
// reads it, as it would be applied.
func (g *Git) Touched(ctx context.Context, root string, patch []byte) ([]string, error) {
	var paths []string
	// Git gives the new name of a rename; the reversed patch has the old one.
	for _, way := range [][]string{nil, {"-R"}} {
		out, err := g.run(ctx, root, bytes.NewReader(patch), append([]string{"apply", "--numstat", "-z"}, way...)...)
		var no *failed
		switch {
		case errors.As(err, &no):
			return nil, api.Errorf(api.KindInvalid, "git cannot read the patch: %s", no.said)
		case err != nil:
			return nil, err
		}
		for line := range strings.SplitSeq(out, "\x00") {
			if f := strings.SplitN(line, "\t", 3); len(f) == 3 && f[2] != "" {
				paths = append(paths, f[2])
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// Stat is what a patch does to one file.
type Stat struct {
	Path           string
	Added, Deleted int
	Binary         bool
}

// Stat counts the lines that a patch adds and deletes in each file. It needs no
// checkout.
func (g *Git) Stat(ctx context.Context, patch []byte) ([]Stat, error) {
	// Below a checkout's top level git would leave out what is elsewhere.
	nowhere := os.TempDir()
	out, err := g.with("GIT_CEILING_DIRECTORIES="+filepath.Dir(nowhere)).run(ctx, nowhere, bytes.NewReader(patch), "apply", "--numstat", "-z")
	var no *failed
	switch {
	case errors.As(err, &no):
		return nil, api.Errorf(api.KindInvalid, "git cannot read the patch: %s", no.said)
	case err != nil:
		return nil, err
	}
	var list []Stat
	for line := range strings.SplitSeq(out, "\x00") {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			continue
		}
		s := Stat{Path: f[2], Binary: f[0] == "-"}
		if !s.Binary {
			var e1, e2 error
			s.Added, e1 = strconv.Atoi(f[0])
			s.Deleted, e2 = strconv.Atoi(f[1])
			if err := errors.Join(e1, e2); err != nil {
				return nil, api.Errorf(api.KindInternal, "git apply --numstat: %w", err)
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// atOnce bounds the paths of one command line.
const atOnce = 200

// Changed gives those of some paths whose content in the working tree or the index
// is not that of HEAD, and untracked ones among them.
func (g *Git) Changed(ctx context.Context, root string, paths []string) ([]string, error) {
	var changed []string
	for some := range slices.Chunk(paths, atOnce) {
		args := append([]string{"--literal-pathspecs", "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--"}, some...)
		out, err := g.run(ctx, root, nil, args...)
		var no *failed
		if errors.As(err, &no) {
			return nil, api.Errorf(api.KindUnavailable, "git status in %s: %s", root, no.said)
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(out, "\x00") {
			if len(line) > 3 {
				changed = append(changed, line[3:])
			}
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// Apply brings a patch into the working tree, whole or not at all; with check it
// changes nothing and says whether it would. The index stays as it is. KindConflict
// says that the patch does not fit.
func (g *Git) Apply(ctx context.Context, root string, patch io.Reader, check bool) error {
	// What a person has set for white space must not change what was verified.
	args := []string{"apply", "--whitespace=nowarn", "--no-ignore-whitespace"}
	if check {
		args = append(args, "--check")
	}
	_, err := g.run(ctx, root, patch, args...)
	var no *failed
	if errors.As(err, &no) {
		return api.Errorf(api.KindConflict, "the patch does not fit %s: %s", root, no.said)
	}
	return err
}

// Import makes a local branch of a commit in a bundle and touches no file of the
// working tree. It is no error when the branch is there already and names that
// commit; KindExists when it names another. KindConflict says that the checkout
// lacks what the bundle builds on.
func (g *Git) Import(ctx context.Context, root, bundle, branch, commit string) error {
	ref, err := g.optional(ctx, root, "check-ref-format", "--branch", branch)
	if err != nil {
		return err
	}
	if ref == "" || ref != branch || strings.HasPrefix(branch, "-") {
		return api.Errorf(api.KindInvalid, "%.100q is no name of a branch", branch)
	}
	local := "refs/heads/" + branch
	have, err := g.optional(ctx, root, "rev-parse", "--verify", "--quiet", local)
	switch {
	case err != nil:
		return err
	case have == commit:
		return nil
	case have != "":
		return api.Errorf(api.KindExists, "the branch %s is there already and names another commit, %.12s", branch, have)
	}
	from, err := g.inBundle(ctx, root, bundle, commit)
	if err != nil {
		return err
	}
	_, err = g.run(ctx, root, nil, "-c", "transfer.fsckObjects=true", "-c", "protocol.file.allow=always", "fetch", "--quiet",
		"--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", bundle, from+":"+local)
	var no *failed
	if errors.As(err, &no) {
		e := api.Errorf(api.KindConflict, "git cannot take the branch: %s", no.said)
		if strings.Contains(no.said, "prerequisite") {
			e = e.WithHint("this checkout has not got the commit that the work started from: git fetch")
		}
		return e
	}
	return err
}

// inBundle finds the name that a commit has in a bundle.
func (g *Git) inBundle(ctx context.Context, root, bundle, commit string) (string, error) {
	out, err := g.run(ctx, root, nil, "bundle", "list-heads", bundle)
	var no *failed
	if errors.As(err, &no) {
		return "", api.Errorf(api.KindInvalid, "git cannot read the bundle: %s", no.said)
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		id, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && id == commit && strings.HasPrefix(name, "refs/") {
			return name, nil
		}
	}
	return "", api.Errorf(api.KindInvalid, "the bundle does not hold the commit %.12s", commit)
}
