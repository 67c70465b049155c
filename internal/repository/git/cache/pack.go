package cache

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"hortus.dev/api"
)

// pack collects the new objects of a commit, and writes them as git's index-pack reads them. Their names are computed here; git computes
// them again, checks each object, and that nothing is missing that they refer to.
type pack struct {
	hashLen int // of a name, in hexadecimal digits: it says which hash the repository uses
	list    []packed
	names   map[string]bool
}

// packed is an object: in memory, or in a file.
type packed struct {
	kind objectKind
	size int64
	data []byte
	file string
}

// objectKind is the kind of an object by its number in a pack.
type objectKind byte

const (
	kindCommit objectKind = 1
	kindTree   objectKind = 2
	kindBlob   objectKind = 3
)

func (k objectKind) String() string {
	return map[objectKind]string{kindCommit: "commit", kindTree: "tree", kindBlob: "blob"}[k]
}

func newPack(hashLen int) *pack { return &pack{hashLen: hashLen, names: map[string]bool{}} }

func (p *pack) hasher() hash.Hash {
	if p.hashLen == 64 {
		return sha256.New()
	}
	return sha1.New()
}

// open returns the content of an object.
func (o packed) open() (io.ReadCloser, error) {
	if o.file == "" {
		return io.NopCloser(bytes.NewReader(o.data)), nil
	}
	return os.Open(o.file)
}

// copy writes the content of an object, which must have the size that it had.
func (o packed) copy(w io.Writer) error {
	in, err := o.open()
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := io.Copy(w, in)
	if err == nil && n != o.size {
		err = fmt.Errorf("a file changed its size from %d to %d bytes", o.size, n)
	}
	return err
}

// add adds an object, unless it was added before, and returns its name.
func (p *pack) add(o packed) (string, error) {
	h := p.hasher()
	fmt.Fprintf(h, "%s %d\x00", o.kind, o.size)
	if err := o.copy(h); err != nil {
		return "", api.Errorf(api.KindInternal, "commit: %w", err)
	}
	name := hex.EncodeToString(h.Sum(nil))
	if !p.names[name] {
		p.names[name] = true
		p.list = append(p.list, o)
	}
	return name, nil
}

// addData adds an object that is in memory.
func (p *pack) addData(kind objectKind, data []byte) (string, error) {
	return p.add(packed{kind: kind, size: int64(len(data)), data: data})
}

// addFile adds the content of a file.
func (p *pack) addFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "commit: %w", err)
	}
	return p.add(packed{kind: kindBlob, size: info.Size(), file: name})
}

// addTree adds a tree with some entries.
func (p *pack) addTree(nodes []node) (string, error) {
	// Git sorts a directory as if its name ended with a slash.
	key := func(n node) string {
		if n.mode == modeTree {
			return n.name + "/"
		}
		return n.name
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(key(a), key(b)) })
	var data []byte
	for _, n := range nodes {
		raw, err := hex.DecodeString(n.hash)
		if err != nil || len(n.hash) != p.hashLen {
			return "", api.Errorf(api.KindInternal, "commit: %q has no object", n.name)
		}
		data = append(fmt.Appendf(data, "%s %s\x00", n.mode, n.name), raw...)
	}
	return p.addData(kindTree, data)
}

// write writes the pack, compressed by a writer of a pool, since each has much memory: commits, trees and contents in this order, as git does. Its fsck knows from the trees which contents are files
// that git itself reads, such as .gitmodules, and checks those when it comes to them; later ones it checks after the pack has its name.
func (p *pack) write(to io.Writer, deflate *sync.Pool) error {
	slices.SortStableFunc(p.list, func(a, b packed) int { return cmp.Compare(a.kind, b.kind) })
	buf := bufio.NewWriterSize(to, 64<<10)
	sum := p.hasher()
	w := io.MultiWriter(buf, sum)
	w.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("PACK"), 2), uint32(len(p.list))))
	z, ok := deflate.Get().(*zlib.Writer)
	if !ok {
		z = zlib.NewWriter(w)
	}
	defer deflate.Put(z)
	for _, o := range p.list {
		// The kind and four bits of the size; then seven bits in each byte, of which the last has no high bit.
		b, rest := byte(o.kind)<<4|byte(o.size&15), o.size>>4
		for ; rest > 0; rest >>= 7 {
			w.Write([]byte{b | 0x80})
			b = byte(rest & 0x7f)
		}
		w.Write([]byte{b})
		z.Reset(w)
		if err := o.copy(z); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
	}
	buf.Write(sum.Sum(nil))
	return buf.Flush() // it has the first error of the writes before
}

// replace adds the trees that differ from an old one by some changed files: by path, the zero Entry for one that is removed. Directories
// without a change are as they were. It returns the name of the new tree, "" if nothing is left in it.
func (p *pack) replace(from *objects, old string, changes map[string]Entry) (string, error) {
	var nodes []node
	if old != "" {
		var err error
		if nodes, err = from.tree(old); err != nil {
			return "", err
		}
	}
	byName := make(map[string]node, len(nodes)+len(changes))
	for _, n := range nodes {
		if _, twice := byName[n.name]; twice {
			return "", api.Errorf(api.KindDenied, "tree %.10s has the name %.200q twice", old, n.name)
		}
		byName[n.name] = n
	}
	below := map[string]map[string]Entry{}
	for path, e := range changes {
		if dir, rest, ok := strings.Cut(path, "/"); ok {
			if below[dir] == nil {
				below[dir] = map[string]Entry{}
			}
			below[dir][rest] = e
		}
	}
	// Directories come first, so that one can replace a file, and a file one that is empty then.
	for dir, inside := range below {
		was := byName[dir]
		if was.mode != modeTree {
			was.hash = ""
		}
		hash, err := p.replace(from, was.hash, inside)
		if err != nil {
			return "", err
		}
		switch {
		case hash != "":
			byName[dir] = node{modeTree, dir, hash}
		case was.mode == modeTree:
			delete(byName, dir)
		}
	}
	for name, e := range changes {
		switch {
		case strings.Contains(name, "/"):
		case e.Mode != "":
			byName[name] = node{e.Mode, name, e.Hash}
		case byName[name].mode != modeTree:
			delete(byName, name)
		}
	}
	if len(byName) == 0 {
		return "", nil
	}
	out := make([]node, 0, len(byName))
	for _, n := range byName {
		out = append(out, n)
	}
	return p.addTree(out)
}
