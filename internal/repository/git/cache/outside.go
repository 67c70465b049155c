package cache

import (
	"bytes"
	"context"
	"path"
	"strconv"
	"strings"

	"hortus.dev/internal/repository/git"
)

// Outside is what a commit refers to and does not have. None of it is fetched: an address or
// a hash in a commit is the word of the author of the commit, and a fetch would use the
// credentials of the operator.
type Outside struct {
	// Submodules are empty directories of a checkout.
	Submodules []SubmoduleRef
	// Pointers counts the files whose content is a Git LFS pointer, and PointerBytes is the
	// size that these state for their contents. A checkout has the pointers.
	Pointers     int
	PointerBytes int64
}

// SubmoduleRef is a commit of another repository. Path and URL are untrusted.
type SubmoduleRef struct {
	Path   string
	URL    string // as in .gitmodules, without credentials; empty if that has none
	Commit string
}

// Bounds of what is read to find out.
const (
	maxAttributes     = 200       // number of .gitattributes
	maxAttributeBytes = 256 << 10 // of one of them, and of .gitmodules
	maxPointer        = 1024      // bytes of an LFS pointer, by its specification
	minPointer        = 90
	maxCandidates     = 20_000
)

// Outside finds what the files of a commit, as [Repo.Files] lists them, refer to. LFS pointers
// are counted if a .gitattributes of the commit names the filter of LFS; it is never run.
func (r *Repo) Outside(ctx context.Context, files []Entry) (Outside, error) {
	var out Outside
	var attributes, candidates []Entry
	var modules *Entry
	for i, e := range files {
		switch {
		case e.Mode == Submodule:
			out.Submodules = append(out.Submodules, SubmoduleRef{Path: e.Path, Commit: e.Hash})
		case e.Mode != Regular && e.Mode != Executable:
		case e.Path == ".gitmodules" && e.Size <= maxAttributeBytes:
			modules = &files[i]
		case path.Base(e.Path) == ".gitattributes":
			if e.Size <= maxAttributeBytes && len(attributes) < maxAttributes {
				attributes = append(attributes, e)
			}
		case e.Size >= minPointer && e.Size < maxPointer && len(candidates) < maxCandidates:
			candidates = append(candidates, e)
		}
	}
	if len(out.Submodules) > 0 && modules != nil {
		if err := r.addresses(ctx, modules.Hash, out.Submodules); err != nil {
			return out, err
		}
	}
	lfs := false
	err := r.blobs(ctx, attributes, func(b []byte) { lfs = lfs || bytes.Contains(b, []byte("filter=lfs")) })
	if err != nil || !lfs {
		return out, err
	}
	err = r.blobs(ctx, candidates, func(b []byte) {
		if size, ok := parsePointer(b); ok {
			out.Pointers++
			// A sum that overflows would be a lie of the commit.
			if out.PointerBytes += size; out.PointerBytes < 0 {
				out.PointerBytes = 1<<63 - 1
			}
		}
	})
	return out, err
}

// addresses sets the URLs of submodules from a .gitmodules. A malformed one sets none.
func (r *Repo) addresses(ctx context.Context, blob string, subs []SubmoduleRef) error {
	raw, err := r.run(ctx, git.Call{Args: []string{"config", "--blob=" + blob, "--no-includes", "-z", "--get-regexp", `^submodule\..*\.(path|url)$`}, Max: 4 << 20})
	if err != nil {
		// git's exit code is the same for a file without a match and for a malformed one.
		return ctx.Err()
	}
	urls := map[string]string{}
	for p, u := range parseModules(string(raw)) {
		urls[p] = u
	}
	for i := range subs {
		subs[i].URL = urls[subs[i].Path]
	}
	return nil
}

// parseModules reads the output of git config -z about a .gitmodules: the address of each
// path.
func parseModules(raw string) map[string]string {
	paths, urls := map[string]string{}, map[string]string{}
	for item := range strings.SplitSeq(raw, "\x00") {
		key, value, ok := strings.Cut(item, "\n")
		if !ok {
			continue
		}
		if name, is := strings.CutSuffix(key, ".path"); is {
			paths[name] = value
		} else if name, is := strings.CutSuffix(key, ".url"); is {
			urls[name] = git.StripCredentials(value)
		}
	}
	out := map[string]string{}
	for name, p := range paths {
		out[p] = urls[name]
	}
	return out
}

// blobs calls f with the content of each entry, in order.
func (r *Repo) blobs(ctx context.Context, entries []Entry, f func([]byte)) error {
	if len(entries) == 0 {
		return nil
	}
	var in strings.Builder
	total := int64(0)
	for _, e := range entries {
		in.WriteString(e.Hash + "\n")
		total += e.Size + 128
	}
	out, err := r.run(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(in.String()), Max: total})
	if err != nil {
		return err
	}
	for len(out) > 0 {
		head, rest, ok := bytes.Cut(out, []byte{'\n'})
		f3 := bytes.Fields(head)
		if !ok || len(f3) != 3 {
			return nil // an object that is missing
		}
		n, err := strconv.Atoi(string(f3[2]))
		if err != nil || n < 0 || n >= len(rest) {
			return nil
		}
		f(rest[:n])
		out = rest[n+1:]
	}
	return nil
}

// parsePointer reads the size that a Git LFS pointer states for its file. The keys after
// version are sorted, by the specification.
func parsePointer(b []byte) (size int64, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte("version https://git-lfs.github.com/spec/v1\n"))
	if !ok || len(b) >= maxPointer || !bytes.HasSuffix(rest, []byte("\n")) {
		return 0, false
	}
	var oid bool
	size = -1
	for line := range bytes.Lines(rest) {
		key, value, found := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if !found {
			return 0, false
		}
		switch key {
		case "oid":
			hash, sha := strings.CutPrefix(value, "sha256:")
			if oid = sha && len(hash) == 64 && git.IsHash(hash); !oid {
				return 0, false
			}
		case "size":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return 0, false
			}
			size = n
		}
	}
	return size, oid && size >= 0
}
