package story

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// trap makes names and files that a copy must not follow, keep or fill a disk with,
// and files around them in the order of a listing.
const trap = `
import os
os.mkdir("d")
os.chdir("d")
for name in (b"a-first", b"\xff\xfe", b"b\xc2\x9b2Jc1", b"c\x1b[2Jc0", "d\u202etxt.exe".encode(), "e-\u00e4\u200f".encode(), b"z-last"):
    open(name, "w").write("text")
os.mkdir("f\u009bdir")
open("f\u009bdir/inside", "w").write("text")
open("g-huge", "w").truncate(60 << 30)
with open("h-sparse", "w") as f:
    f.write("begin")
    f.truncate(256 << 20)
    f.seek(0, 2)
    f.write("end")
open("i-unreadable", "w").write("text")
os.chmod("i-unreadable", 0)
os.symlink("/etc/passwd", "j-link")
os.makedirs("k-deep/" + "d/" * 140)
`

// TestCopyOutOfATrap: one entry that cannot be copied does not keep the others from
// it, is named, and makes the command fail; holes stay holes.
func TestCopyOutOfATrap(t *testing.T) {
	t.Parallel()
	g := newGarden(t)
	g.shareKernel()
	id := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "10m"))
	g.must("sandbox", "exec", id, "--", "python3", "-c", trap)
	dir := t.TempDir()
	r := g.run("sandbox", "cp", id+":/workspace/d", dir)
	if r.code != 1 || !strings.Contains(r.stderr, "not copied: 9") {
		t.Errorf("%s", r)
	}
	for _, want := range []string{"not valid UTF-8", `b\u009b2Jc1: the name has control`, `c\x1b[2Jc0: the name has control`, `d\u202etxt.exe: the name has control`, `f\u009bdir: the name has control`, "g-huge: the file has 60 GiB", "i-unreadable", "j-link: the link leads out", "nested deeper"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr does not say %q: %s", want, r)
		}
	}
	if strings.ContainsAny(r.stderr, "\x1b\u009b\u202e") {
		t.Errorf("stderr has control characters: %q", r.stderr)
	}
	list, err := os.ReadDir(filepath.Join(dir, "d"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "a-first e-\u00e4\u200f h-sparse k-deep z-last" {
		t.Errorf("copied: %q", got)
	}
	var st syscall.Stat_t
	sparse := filepath.Join(dir, "d", "h-sparse")
	if err := syscall.Stat(sparse, &st); err != nil || st.Size != 256<<20+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes, of them %d on the disk, %v", st.Size, st.Blocks*512, err)
	}
	if b, err := os.ReadFile(sparse); err != nil || string(b[:5]) != "begin" || string(b[256<<20:]) != "end" {
		t.Errorf("the content differs: %v", err)
	}
	// A bound of one's own, and a copy that needs none of this.
	if r := g.run("sandbox", "cp", "--max-size", "1K", id+":/workspace/d/h-sparse", dir); r.code != 1 || !strings.Contains(r.stderr, "--max-size") {
		t.Errorf("%s", r)
	}
	if r := g.run("sandbox", "cp", id+":/workspace/d/z-last", dir); r.code != 0 || r.stderr != "" {
		t.Errorf("%s", r)
	}
}
