package erofs_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/erofs"
	"hortus.dev/internal/storage/layer/mount"
)

// pack writes a tree as an image and returns where the kernel shows it.
func pack(t testing.TB, tree string) (string, erofs.Info) {
	t.Helper()
	m, err := mount.Find(t.Context(), t.TempDir())
	if err != nil {
		t.Skipf("this host cannot mount images: %v", err)
	}
	image := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := erofs.Write(t.Context(), f, tree)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := f.Stat(); err != nil || st.Size() != info.Image {
		t.Errorf("the image has %d bytes, not %d: %v", st.Size(), info.Image, err)
	}
	img, err := m.Mount(image)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(img.Close)
	return img.Path(), info
}

// listing describes everything below a directory, as the kernel shows it.
func listing(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	first := map[uint64]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		size := st.Size
		content := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content = string(b)
		case unix.S_IFLNK:
			if content, err = os.Readlink(p); err != nil {
				return err
			}
		default:
			size = 0 // a matter of the file system
		}
		same := rel
		if st.Nlink > 1 && !d.IsDir() {
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			same = first[st.Ino]
		}
		out[rel] = fmt.Sprintf("%o %d:%d links %d rdev %d size %d mtime %d.%09d type %v same %s xattrs %q content %q",
			st.Mode, st.Uid, st.Gid, st.Nlink, st.Rdev, size, st.Mtim.Sec, st.Mtim.Nsec, d.Type(), same, xattrs(t, p), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func xattrs(t testing.TB, p string) []string {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(p, buf)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		k, err := unix.Lgetxattr(p, name, value)
		if err != nil {
			t.Fatal(p, name, err)
		}
		out = append(out, name+"="+string(value[:k]))
	}
	slices.Sort(out)
	return out
}

func compare(t *testing.T, tree string) erofs.Info {
	t.Helper()
	shown, info := pack(t, tree)
	want, got := listing(t, tree), listing(t, shown)
	for p, w := range want {
		if got[p] != w {
			t.Errorf("%.100q:\n is %.700s\nwas %.700s", p, got[p], w)
		}
	}
	for p := range got {
		if want[p] == "" {
			t.Errorf("%.100q is new", p)
		}
	}
	if len(got) < 2 {
		t.Errorf("only %d entries", len(got))
	}
	return info
}

// TestKernelReadsZoo: the kernel shows every kind of file as it was.
func TestKernelReadsZoo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for _, size := range []int{0, 1, 4031, 4032, 4033, 4095, 4096, 4097, 8128, 8192, 3 << 20, 1<<20 + 4095} {
		must(os.WriteFile(at(fmt.Sprintf("size%d", size)), []byte(strings.Repeat("abcdefg\n", size/8+1)[:size]), 0o644))
	}
	long := strings.Repeat("n", 255)
	must(os.MkdirAll(at("d/"+long+"/e"), 0o755))
	must(os.WriteFile(at("d/"+long+"/"+strings.Repeat("ä", 127)), []byte("x"), 0o600))
	must(os.WriteFile(at("d/new\nline \xff"), nil, 0o644))
	must(os.Link(at("size4097"), at("d/hard")))
	must(os.Link(at("size4097"), at("a-hard")))
	must(os.Symlink("size1", at("link")))
	must(os.Symlink(strings.Repeat("/long", 819)[:4095], at("d/longest")))
	must(os.Symlink(strings.Repeat("x", 4032), at("d/just")))
	must(unix.Mknod(at("d/whiteout"), unix.S_IFCHR|0o600, 0))
	must(unix.Mknod(at("d/device"), unix.S_IFBLK|0o660, int(unix.Mkdev(259, 70000))))
	must(unix.Mknod(at("d/pipe"), unix.S_IFIFO|0o644, 0))
	must(unix.Mknod(at("d/socket"), unix.S_IFSOCK|0o755, 0))
	must(os.WriteFile(at("setuid"), []byte("#!"), 0o755))
	must(os.Chmod(at("setuid"), 0o755|os.ModeSetuid|os.ModeSetgid))
	must(os.Mkdir(at("sticky"), 0o777))
	must(os.Chmod(at("sticky"), 0o777|os.ModeSticky))
	must(os.Chmod(at("d"), 0))
	must(os.Lchown(at("link"), 1000, 70000))
	must(os.Lchown(at("d"), 0x60000000, 1<<31))
	for p, name := range map[string]string{"d": "trusted.overlay.opaque", "sticky": "user.overlay.opaque", "size1": "user.empty", "setuid": "user." + strings.Repeat("k", 250)} {
		value := map[string]string{"user.empty": ""}
		v, ok := value[name]
		if !ok {
			v = "y"
		}
		must(unix.Lsetxattr(at(p), name, []byte(v), 0))
	}
	for i := range 24 {
		must(unix.Lsetxattr(at("size8192"), fmt.Sprintf("user.many%d", i), []byte(strings.Repeat("v", 60+i)), 0))
	}
	must(unix.Lsetxattr(at("setuid"), "security.capability", []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0))
	acl := "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x04\x00\xe8\x03\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x06\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff"
	must(unix.Lsetxattr(at("size0"), "system.posix_acl_access", []byte(acl), 0))
	must(os.Mkdir(at("many"), 0o755))
	for i := range 3000 {
		must(os.WriteFile(at(fmt.Sprintf("many/%d-%s", i, strings.Repeat("m", i%200))), nil, 0o644))
	}
	for p, when := range map[string]time.Time{"size1": time.Unix(-5, 7), "sticky": time.Unix(1<<33, 999999999), "d/hard": time.Unix(0, 0), ".": time.Unix(77, 1)} {
		must(os.Chtimes(at(p), when, when))
	}
	info := compare(t, root)
	if info.Entries < 3000 || info.Bytes < 4<<20 {
		t.Errorf("%+v", info)
	}
}

// TestKernelReadsRandom does the same with random trees.
func TestKernelReadsRandom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			root := t.TempDir()
			dirs := []string{root}
			for i := range 60 + r.IntN(400) {
				name := fmt.Sprintf("%d%s", i, strings.Repeat("z", r.IntN(120)))
				p := filepath.Join(dirs[r.IntN(len(dirs))], name)
				var err error
				switch r.IntN(6) {
				case 0:
					if err = os.Mkdir(p, 0o700); len(p) < 2000 {
						dirs = append(dirs, p)
					}
				case 1:
					err = os.Symlink(strings.Repeat("t", 1+r.IntN(3000)), p)
				default:
					b := make([]byte, r.IntN(1<<uint(r.IntN(18))+1))
					for i := range b {
						b[i] = byte(r.Uint32())
					}
					err = os.WriteFile(p, b, 0o644)
					if err == nil && r.IntN(3) == 0 {
						err = unix.Lsetxattr(p, "user.x", b[:min(len(b), r.IntN(900))], 0)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			compare(t, root)
		})
	}
}

func TestRefused(t *testing.T) {
	write := func(ctx context.Context, dir string) error {
		f, err := os.Create(filepath.Join(t.TempDir(), "image"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = erofs.Write(ctx, f, dir)
		return err
	}
	deep := t.TempDir()
	d, err := unix.Open(deep, unix.O_RDONLY, 0)
	for i := 0; err == nil && i < 600; i++ {
		var below int
		if err = unix.Mkdirat(d, "d", 0o755); err == nil {
			below, err = unix.Openat(d, "d", unix.O_RDONLY, 0)
		}
		unix.Close(d)
		d = below
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(d)
	if err := write(t.Context(), deep); err == nil || !strings.Contains(err.Error(), "512") {
		t.Errorf("a deep tree: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := write(ctx, t.TempDir()); err != context.Canceled {
		t.Errorf("canceled: %v", err)
	}
	if err := write(t.Context(), filepath.Join(deep, "none")); err == nil {
		t.Error("a tree that is not there")
	}
}
