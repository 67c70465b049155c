package githttp

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
)

// noise is n bytes that cannot be compressed, always the same.
func noise(n int) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{7}), int64(n)) }

// meter measures the heap each time some bytes were written.
type meter struct {
	w     io.Writer
	every int
	n     int
	max   uint64
}

func (m *meter) Write(p []byte) (int, error) {
	if m.n += len(p); m.n > m.every {
		m.n = 0
		m.max = max(m.max, heap())
	}
	return m.w.Write(p)
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestLarge pushes a large file to a real server, with a pack that is made while it is sent.
func TestLarge(t *testing.T) {
	t.Run("50MB", func(t *testing.T) { testLarge(t, 50<<20) })
	t.Run("1GB", func(t *testing.T) {
		tier.Soak(t)
		testLarge(t, 1<<30)
	})
}

func testLarge(t *testing.T, size int) {
	s := newStage(t, "sha1", sandboxRule())
	ref := "refs/heads/hortus/old"
	old := s.ref(ref)
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", size)
	if _, err := io.Copy(sum, noise(size)); err != nil {
		t.Fatal(err)
	}
	blob := sum.Sum(nil)
	root := append([]byte("100644 big\x00"), blob...)
	rootName := nameOf("tree", root)
	for _, lie := range []bool{true, false} {
		parent := old
		if lie {
			parent = s.ref("refs/heads/main")
		}
		head := bytes.Replace(commitText("big", parent), []byte(tree), []byte(rootName), 1)
		r, w := io.Pipe()
		m := &meter{w: w, every: max(size/20, 4<<20)}
		before := heap()
		done := make(chan error, 1)
		go func() {
			err := writeLarge(m, listOf("report-status", old+" "+commitName(head)+" "+ref), head, root, size)
			_ = w.CloseWithError(err)
			done <- err
		}()
		answer := s.push(r)
		_ = r.Close()
		err := <-done
		t.Logf("the heap grew by at most %.1f MiB", float64(int64(m.max)-int64(before))/(1<<20))
		if m.max > before+12<<20 {
			t.Errorf("the heap grew from %d to %d MiB", before>>20, m.max>>20)
		}
		if lie {
			// The file was passed on, and the server does not have it.
			if s.ref(ref) != old || len(s.refusals()) != 1 || !strings.Contains(answer, "ng "+ref) {
				t.Fatalf("the ref is %s: %.300s", s.ref(ref), answer)
			}
			if _, err := gittest.TryGit(t, filepath.Join(s.root, "o/r.git"), "cat-file", "-e", hex.EncodeToString(blob)); err == nil {
				t.Error("the server has the file of a push that was refused")
			}
			continue
		}
		if err != nil || s.ref(ref) != commitName(head) {
			t.Fatalf("the ref is %s: %v, %.300s", s.ref(ref), err, answer)
		}
		if got := gittest.Git(t, filepath.Join(s.root, "o/r.git"), "cat-file", "-s", ref+":big"); got != fmt.Sprint(size) {
			t.Errorf("the file has %s bytes", got)
		}
	}
}

// writeLarge writes a push with a commit, a tree and a blob of some size.
func writeLarge(w io.Writer, list, head, root []byte, size int) error {
	if _, err := w.Write(list); err != nil {
		return err
	}
	sum := sha1.New()
	out := io.MultiWriter(w, sum)
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 3)
	b = append(append(b, entryHead(packCommit, len(head))...), deflate(head)...)
	b = append(append(b, entryHead(packTree, len(root))...), deflate(root)...)
	if _, err := out.Write(append(b, entryHead(packBlob, size)...)); err != nil {
		return err
	}
	z, err := zlib.NewWriterLevel(out, zlib.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, noise(size)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}
