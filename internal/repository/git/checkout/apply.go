package checkout

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// ApplyOptions are the options of [User.Apply].
type ApplyOptions struct {
	Check    bool  // only check whether the patch applies
	Index    bool  // apply to the index too, which must match the files
	ThreeWay bool  // merge if the patch does not apply; implies Index
	Max      int64 // maximum size of the patch in bytes (default 256 MiB)
}

// Apply applies a patch to the checkout at dir: all of it, or nothing. KindConflict names
// the conflicting files. A patch cannot write outside of the checkout, through a link, or
// into .git. No hook and no filter of the checkout runs. The index changes only with Index
// or ThreeWay.
func (p User) Apply(ctx context.Context, dir string, patch io.Reader, opt ApplyOptions) error {
	opt.Max = cmp.Or(opt.Max, 256<<20)
	b, err := io.ReadAll(io.LimitReader(patch, opt.Max+1))
	if err != nil {
		return api.Errorf(api.KindInternal, "apply: the patch cannot be read: %w", err)
	}
	if int64(len(b)) > opt.Max {
		return api.Errorf(api.KindExhausted, "apply: the patch exceeds %d bytes", opt.Max)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	d, done, err := p.open(ctx, dir)
	if err != nil {
		return err
	}
	defer done()
	if d.Root == "" {
		return noWorkTree(d)
	}
	args := []string{"apply", "--whitespace=nowarn"}
	env := []string{}
	if opt.ThreeWay || opt.Index {
		env = append(env, "GIT_INDEX_FILE="+filepath.Join(d.Dir, "index"), "GIT_OBJECT_DIRECTORY="+filepath.Join(d.Common, "objects"))
		args = append(args, map[bool]string{true: "--3way", false: "--index"}[opt.ThreeWay])
	}
	run := func(extra ...string) error {
		conflict := ""
		_, err := d.run(ctx, git.Call{Args: append(append(append([]string{}, args...), extra...), "-"), Env: env, Stdin: bytes.NewReader(b), Lines: func(line string) {
			if strings.HasSuffix(line, "with conflicts.") {
				conflict += line + "; "
			}
		}})
		if conflict != "" && len(extra) > 0 {
			return api.Errorf(api.KindConflict, "apply: %s", git.Sanitize(conflict, 2<<10))
		}
		return err
	}
	// A merge writes conflicts into files, so try it without writing first.
	if err := run("--check"); err != nil || opt.Check {
		return applyError(err)
	}
	return applyError(run())
}

// applyError turns an error of git apply into one about the patch.
func applyError(err error) error {
	var e *api.Error
	if err != nil && errors.As(err, &e) {
		for text, kind := range map[string]api.Kind{"corrupt patch": api.KindInvalid, "No valid patches": api.KindInvalid, "patch with only garbage": api.KindInvalid,
			"invalid path": api.KindDenied, "beyond a symbolic link": api.KindDenied, "outside repository": api.KindDenied} {
			if strings.Contains(e.Message, text) {
				return api.Errorf(kind, "the patch was refused, and nothing was changed: %w", err)
			}
		}
	}
	if err != nil && errors.As(err, &e) && (git.ExitCode(err, 1) || git.ExitCode(err, 128)) {
		return api.Errorf(api.KindConflict, "the patch does not apply, and nothing was changed: %w", err).
			WithHint("commit or stash your changes of these files, or import the result as a branch")
	}
	return err
}

// Stat counts the changes of a file in a patch.
type Stat struct {
	Path           string
	Added, Deleted int // lines; 0 if Binary is set
	Binary         bool
}

// Stat counts the lines that a patch adds and deletes in each file. It needs no checkout.
// KindInvalid if git cannot parse the patch.
func (p User) Stat(ctx context.Context, patch []byte) ([]Stat, error) {
	g, done, err := p.findGit()
	if err != nil {
		return nil, err
	}
	defer done()
	return stat(ctx, g, patch)
}

// Touched returns the paths that a patch changes, both names of a renamed file. Git parses
// the patch as it would to apply it.
func (p User) Touched(ctx context.Context, patch []byte) ([]string, error) {
	g, done, err := p.findGit()
	if err != nil {
		return nil, err
	}
	defer done()
	var paths []string
	// Git prints the new name of a rename; the reversed patch has the old one.
	for _, way := range [][]string{nil, {"-R"}} {
		list, err := stat(ctx, g, patch, way...)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			paths = append(paths, s.Path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

func stat(ctx context.Context, g *git.Program, patch []byte, way ...string) ([]Stat, error) {
	out, err := g.Run(ctx, git.Call{Args: append(append([]string{"apply", "--numstat", "-z"}, way...), "-"), Stdin: bytes.NewReader(patch)})
	if git.ExitCode(err, 1) || git.ExitCode(err, 128) {
		return nil, api.Errorf(api.KindInvalid, "git cannot read the patch: %w", err)
	}
	if err != nil {
		return nil, err
	}
	var list []Stat
	for _, line := range git.SplitNUL(out) {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 || f[2] == "" {
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
