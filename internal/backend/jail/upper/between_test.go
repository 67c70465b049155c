package upper

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// differing makes two directories with the same inodes of files, as two overlays of one layer have, and changes the first one.
func differing(t *testing.T, change string) (now, was string) {
	t.Helper()
	top := t.TempDir()
	now, was = filepath.Join(top, "now"), filepath.Join(top, "was")
	shell(t, top, `mkdir was; cd was
		mkdir -p same/deep emptied replaced/d kept mounted; yes | head -c 1100000 >same/large; echo f >same/deep/f; ln same/deep/f same/deep/twin
		echo x >emptied/x; echo x >replaced/d/x; echo x >gone; echo x >text; ln -s text link; echo below >mounted/below; echo x >mode; touch -d @1000 . kept
		cd ..; cp -al was now; touch -d @1000 now`)
	shell(t, now, change)
	return now, was
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func between(t *testing.T, now, was string, o Options) ([]byte, error) {
	t.Helper()
	var b bytes.Buffer
	err := WriteBetween(t.Context(), &b, Between{Name: Root, Now: open(t, now), Was: open(t, was), Hidden: map[string]bool{"mounted": true, "same/mounted": true}}, o)
	return b.Bytes(), err
}

// changed does everything that can be done to a tree. A program writes a file as an overlay does: the first write makes a new inode.
const changed = `rm gone emptied/x; rm -r replaced; echo file >replaced; rm link; mkdir link; echo new >link/new
	ln link/new twin; mkfifo pipe; ln -s /etc/passwd out; truncate -s 1G sparse; printf end >>sparse; mkdir -p a/b/c; echo deep >a/b/c/d; chmod 0700 kept; touch -d @2000 kept
	echo y >text2; mv text2 text; touch -r mode time; cp -p mode mode2; mv mode2 mode; chmod 0640 mode
	echo hidden >mounted/hidden; mkdir same/mounted`

// TestBetween: what was saved of a tree makes another one the same, and what has not changed is not in it.
func TestBetween(t *testing.T) {
	now, was := differing(t, changed)
	b, err := between(t, now, was, options())
	must(t, err)
	if len(b) > 4<<10 {
		t.Errorf("%d bytes were saved, with what is the same", len(b))
	}
	over := filepath.Join(t.TempDir(), "over")
	shell(t, ".", "cp -a "+was+" "+over)
	r, err := NewReader(bytes.NewReader(b), chown)
	must(t, err)
	must(t, r.Over(Root, open(t, over)))
	must(t, r.End())
	// What is mounted somewhere was not looked at.
	if _, err := os.Stat(filepath.Join(over, "mounted/hidden")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("mounted: %v", err)
	}
	must(t, os.Remove(filepath.Join(now, "mounted/hidden")))
	must(t, os.Remove(filepath.Join(now, "same/mounted")))
	for _, dir := range []string{now, over} {
		for _, p := range []string{"mounted", "same"} {
			must(t, os.Chtimes(filepath.Join(dir, p), time.Unix(1, 0), time.Unix(1, 0)))
		}
	}
	// The files of the first have one name more each, in was.
	alone := filepath.Join(t.TempDir(), "alone")
	shell(t, ".", "cp -a "+now+" "+alone)
	if a, b := listing(t, alone), listing(t, over); a != b {
		t.Errorf("it is\n%s\nand was saved as\n%s", b, a)
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(over, "sparse"), &st))
	if st.Size != 1<<30+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("the file with holes has %d bytes, %d of them on the disk", st.Size, st.Blocks*512)
	}
}

// TestForgedTimes: a file of the same size is saved although a program set its times to those of what it was.
func TestForgedTimes(t *testing.T) {
	// The rename changes the time of the inode that it replaces too, which nothing does to a file of a layer.
	now, was := differing(t, `echo z >new; touch -r text new; chmod --reference text new; mv new text; touch -d @1000 .
		until [ "$(stat -c %z text)" != "$(stat -c %z ../was/text)" ]; do chmod --reference text ../was/text; done`)
	b, err := between(t, now, was, options())
	must(t, err)
	if !bytes.Contains(b, []byte("z\n")) {
		t.Errorf("not saved: %q", b)
	}
	now, was = differing(t, "true")
	if b, err = between(t, now, was, options()); err != nil || len(b) > 100 {
		t.Errorf("the control: %d bytes, %v", len(b), err)
	}
}

// TestBetweenRefuses: limits hold for what was written, not for what was there.
func TestBetweenRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change string
		limit  func(*Options)
		why    string
	}{
		"entries": {"touch a b c d", func(o *Options) { o.Entries = 3 }, "entries"},
		"removed": {"rm -r same emptied kept replaced", func(o *Options) { o.Entries = 3 }, "entries"},
		"bytes":   {"head -c 9000 /dev/urandom >f", func(o *Options) { o.Bytes = 8000 }, "disk"},
		"depth":   {`n=$(printf %0200d 0); for i in $(seq 20); do mkdir $n; cd $n; done`, func(*Options) {}, "deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			now, was := differing(t, tc.change)
			o := options()
			if _, err := between(t, now, was, o); (err != nil) != (name == "depth") {
				t.Errorf("the control: %v", err)
			}
			tc.limit(&o)
			var refused *RefusedError
			if _, err := between(t, now, was, o); !errors.As(err, &refused) || !strings.Contains(refused.Why, tc.why) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOverStaysInside: what is restored follows no link of the tree that it is restored over.
func TestOverStaysInside(t *testing.T) {
	secret, dir, untouched := outside(t)
	must(t, os.Symlink(secret, filepath.Join(dir, "away")))
	must(t, os.Symlink(secret+"/f", filepath.Join(dir, "file")))
	must(t, os.Symlink(secret, filepath.Join(dir, "gone")))
	f := forge()
	f.rec(recDir, "away").meta(0o755).rec(recWhiteout, "f").rec(recFile, "g").meta(0o644).numbers(0, 0, 0).WriteByte(recUp)
	f.rec(recFile, "file").meta(0o644).numbers(0, 0, 0).rec(recWhiteout, "gone")
	r, err := NewReader(bytes.NewReader(f.end()), chown)
	must(t, err)
	must(t, r.Over(Root, open(t, dir)))
	must(t, r.End())
	untouched()
	if fi, err := os.Lstat(filepath.Join(dir, "away/g")); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the link was not replaced by a directory: %v, %v", fi, err)
	}
}
