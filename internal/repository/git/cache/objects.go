package cache

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// objects reads the objects of a repository through one process of git, which runs from the first one until close. It has each tree that
// it read, so that commits with common directories are listed fast. One goroutine uses it.
type objects struct {
	trees map[string][]node
	start func() error // nil once the process was started

	in    *os.File
	out   *bufio.Reader
	pipe  *io.PipeReader
	ended chan struct{}
}

// node is an entry of a tree.
type node struct {
	mode Mode
	name string // without a slash
	hash string
}

// modeTree is the mode of a directory in a tree.
const modeTree Mode = "40000"

const (
	maxCommitBytes = 64 << 20
	maxTreeBytes   = 256 << 20
)

// objects returns the objects of the repository. The caller closes them.
func (r *Repo) objects(ctx context.Context) *objects {
	o := &objects{trees: map[string][]node{}}
	o.start = func() error {
		stdin, in, err := os.Pipe()
		if err != nil {
			return err
		}
		pipe, out := io.Pipe()
		o.in, o.out, o.pipe, o.ended = in, bufio.NewReader(pipe), pipe, make(chan struct{})
		go func() {
			defer close(o.ended)
			_, err := r.run(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: stdin, Stdout: out, Max: 1 << 50})
			stdin.Close()
			out.CloseWithError(cmp.Or(err, io.ErrUnexpectedEOF))
		}()
		return nil
	}
	return o
}

// close ends the process, and waits for it.
func (o *objects) close() {
	if o.in != nil {
		o.in.Close()
		o.pipe.Close()
		<-o.ended
	}
}

// get returns the kind of an object and its content. Content that is larger than max bytes is not kept: large is true. KindNotFound
// if the repository does not have the object.
func (o *objects) get(hash string, max int64) (kind string, content []byte, large bool, err error) {
	if err := git.CheckHash("object", hash); err != nil {
		return "", nil, false, err
	}
	fail := func(err error) (string, []byte, bool, error) {
		return "", nil, false, api.Errorf(api.KindOf(err), "read object %.10s: %w", hash, err)
	}
	if o.start != nil {
		if err := o.start(); err != nil {
			return fail(err)
		}
		o.start = nil
	}
	if _, err := io.WriteString(o.in, hash+"\n"); err != nil {
		return fail(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return fail(err)
	}
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == "missing" {
		return "", nil, false, api.Errorf(api.KindNotFound, "the repository has no object %s", hash)
	}
	if len(f) != 3 || f[0] != hash {
		return fail(api.Errorf(api.KindInternal, "git cat-file printed unexpected output: %q", git.Sanitize(line, 200)))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return fail(api.Errorf(api.KindInternal, "git cat-file printed unexpected output: %q", git.Sanitize(line, 200)))
	}
	if large = size > max; large {
		_, err = io.CopyN(io.Discard, o.out, size)
	} else {
		content = make([]byte, size)
		_, err = io.ReadFull(o.out, content)
	}
	if err == nil {
		_, err = o.out.Discard(1) // the line feed behind it
	}
	if err != nil {
		return fail(err)
	}
	return f[1], content, large, nil
}

// blob returns the content of a file, or the target of a link; nil and large if it has more than max bytes.
func (o *objects) blob(hash string, max int64) (content []byte, large bool, err error) {
	kind, content, large, err := o.get(hash, max)
	if err == nil && kind != "blob" {
		err = api.Errorf(api.KindDenied, "object %.10s is a %s, not the content of a file", hash, kind)
	}
	return content, large, err
}

// commit returns the tree of a commit. KindNotFound if the repository has no such commit.
func (o *objects) commit(hash string) (tree string, err error) {
	kind, content, large, err := o.get(hash, maxCommitBytes)
	if api.KindOf(err) == api.KindNotFound || err == nil && kind != "commit" {
		return "", api.Errorf(api.KindNotFound, "the repository has no commit %s", hash)
	}
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(content, []byte{'\n'})
	tree, ok := strings.CutPrefix(string(line), "tree ")
	if large || !ok || !git.IsHash(tree) {
		return "", api.Errorf(api.KindDenied, "commit %.10s is damaged", hash)
	}
	return tree, nil
}

// tree returns the entries of a tree, as they are in it.
func (o *objects) tree(hash string) ([]node, error) {
	if nodes, ok := o.trees[hash]; ok {
		return nodes, nil
	}
	kind, content, large, err := o.get(hash, maxTreeBytes)
	if err != nil {
		return nil, err
	}
	if kind != "tree" || large {
		return nil, api.Errorf(api.KindDenied, "tree %.10s is damaged", hash)
	}
	nodes, err := parseTree(content, len(hash)/2)
	if err != nil {
		return nil, api.Errorf(api.KindOf(err), "tree %.10s: %w", hash, err)
	}
	o.trees[hash] = nodes
	return nodes, nil
}

// parseTree reads entries of the form "mode name<NUL>hash", whose hashes have some bytes.
func parseTree(b []byte, hashBytes int) (nodes []node, err error) {
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || name == "" || strings.Contains(name, "/") || len(rest) < hashBytes {
			return nil, api.Errorf(api.KindDenied, "an entry is damaged: %q", git.Sanitize(string(head), 200))
		}
		n := node{mode: Mode(strings.TrimLeft(mode, "0")), name: name, hash: hex.EncodeToString(rest[:hashBytes])}
		switch n.mode {
		case Regular, Executable, Symlink, Submodule, modeTree:
		case "100664": // old versions of git wrote it; git reads it as 100644
			n.mode = Regular
		default:
			return nil, api.Errorf(api.KindDenied, "%q has the invalid mode %q", git.Sanitize(name, 200), git.Sanitize(mode, 20))
		}
		nodes, b = append(nodes, n), rest[hashBytes:]
	}
	return nodes, nil
}

// files returns the files of a tree by path, without their sizes. KindExhausted for more than a million.
func (o *objects) files(ctx context.Context, tree string) (map[string]Entry, error) {
	all := map[string]Entry{}
	seen := 0
	var add func(dir, tree string) error
	add = func(dir, tree string) error {
		if err := ctx.Err(); err != nil {
			return api.Errorf(api.KindOf(err), "list files: %w", context.Cause(ctx))
		}
		nodes, err := o.tree(tree)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			p := dir + n.name
			switch seen++; {
			case seen > maxTreeFiles:
				return api.Errorf(api.KindExhausted, "the tree has more than %d files", maxTreeFiles)
			case len(p) > maxTreePath:
				return api.Errorf(api.KindExhausted, "a path of the tree is longer than %d bytes", maxTreePath)
			case n.mode == modeTree:
				err = add(p+"/", n.hash)
			default:
				all[p] = Entry{Path: p, Mode: n.mode, Hash: n.hash}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return all, add("", tree)
}

// maxTreePath is the maximum length of a path that a tree may have, in bytes. No system has files with longer ones, and the depth of
// directories is bounded by it.
const maxTreePath = 64 << 10
