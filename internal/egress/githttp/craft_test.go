package githttp

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
)

// crafted is an entry of a pack that a test makes.
type crafted struct {
	kind    byte
	content []byte
	back    int    // kind 6: number of entries that the base is in front
	base    []byte // kind 7
	size    int    // that it says it has; 0 for the real one
}

const (
	zeros = "0000000000000000000000000000000000000000"
	tree  = "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // the empty one
)

// commitText makes a commit.
func commitText(message string, parents ...string) []byte {
	var b strings.Builder
	b.WriteString("tree " + tree + "\n")
	for _, p := range parents {
		b.WriteString("parent " + p + "\n")
	}
	b.WriteString("author T <t@t> 1700000000 +0000\ncommitter T <t@t> 1700000000 +0000\n\n" + message + "\n")
	return []byte(b.String())
}

// nameOf returns the name of an object.
func nameOf(kind string, content []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content...))
	return hex.EncodeToString(sum[:])
}

func commitName(content []byte) string { return nameOf("commit", content) }

func deflate(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// entryHead is the kind and the size of an entry.
func entryHead(kind byte, size int) []byte {
	c := kind<<4 | byte(size&15)
	b := []byte{}
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(b, c)
}

func packOf(entries ...crafted) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(entries)))
	var at []int
	for i, e := range entries {
		at = append(at, len(b))
		size := len(e.content)
		if e.size != 0 {
			size = e.size
		}
		b = append(b, entryHead(e.kind, size)...)
		switch e.kind {
		case packOffset:
			distance := len(b) // of a base in front of the pack
			if e.back <= i {
				distance = at[i] - at[i-e.back]
			}
			o := []byte{byte(distance & 0x7f)}
			for distance >>= 7; distance > 0; distance >>= 7 {
				distance--
				o = append([]byte{byte(distance&0x7f) | 0x80}, o...)
			}
			b = append(b, o...)
		case packRefDelta:
			b = append(b, e.base...)
		}
		b = append(b, deflate(e.content)...)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// deltaOf is a delta that copies the first n bytes of a base, then adds a tail.
func deltaOf(base []byte, n int, tail []byte) []byte {
	size := func(n int) (b []byte) {
		for ; n > 0x7f; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		return append(b, byte(n))
	}
	d := append(size(len(base)), size(n+len(tail))...)
	d = append(d, 0xb0, byte(n), byte(n>>8)) // offset 0, a size of two bytes
	for len(tail) > 0 {
		k := min(len(tail), 127)
		d = append(append(d, byte(k)), tail[:k]...)
		tail = tail[k:]
	}
	return d
}

// listOf makes the list of commands of a push, each "old new ref".
func listOf(capabilities string, commands ...string) []byte {
	var b []byte
	for i, c := range commands {
		if i == 0 {
			c += "\x00 " + capabilities
		}
		b = appendLine(b, c)
	}
	return append(b, flush...)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pieces reads in pieces of n bytes at most.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }
