package artefact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/artefact"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/s3"
	"hortus.dev/test/archivetest"
)

const page = 4 << 10

var key = bytes.Repeat([]byte{7}, artefact.KeyBytes)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, b archive.Blobs, change func(*artefact.Config)) *artefact.Store {
	t.Helper()
	cfg := artefact.Config{Blobs: b, Key: key, ChunkBytes: 16 * page}
	if change != nil {
		change(&cfg)
	}
	s, err := artefact.New(cfg)
	must(t, err)
	return s
}

// memory returns pages as a guest has them: random ones, text, and zeros.
func memory(seed uint64, pages int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, pages*page)
	for i := range pages {
		p := out[i*page:][:page]
		switch i % 4 {
		case 0, 1:
			for j := range p {
				p[j] = byte(r.Uint32())
			}
		case 2:
			copy(p, bytes.Repeat(fmt.Appendf(nil, "text of page %d in memory %d ", i, seed), 200))
		}
	}
	return out
}

// write makes a directory with files.
func write(t testing.TB, files map[string][]byte) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	for name, b := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		names = append(names, name)
	}
	return dir, names
}

func check(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, not the %d that were saved; %v", name, len(got), len(want), err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != len(files) {
		t.Errorf("%d files, not %d; %v", len(all), len(files), err)
	}
}

// places are the kinds of blobs.
func places(t testing.TB) map[string]archive.Blobs {
	l, err := s3.Parse("s3://" + archivetest.Bucket + "/team?endpoint=" + archivetest.Server(t, nil).URL)
	must(t, err)
	b, err := s3.Open(s3.Config{Location: l})
	must(t, err)
	return map[string]archive.Blobs{"directory": archive.NewBounded(archive.Dir{Path: t.TempDir()}, 0), "object store": b}
}

// TestSmall: an artefact may be so small that its manifest is, too.
func TestSmall(t *testing.T) {
	s := open(t, archive.Dir{Path: t.TempDir()}, nil)
	for name, b := range map[string][]byte{"empty": {}, "little": []byte("1")} {
		files := map[string][]byte{"f": b}
		dir, names := write(t, files)
		saved, err := s.Save(t.Context(), name, dir, names, nil)
		must(t, err)
		to := t.TempDir()
		must(t, s.Restore(t.Context(), saved.Ref, name, 1, to))
		check(t, to, files)
	}
}

// TestKinds: artefacts of one kind are not those of another one, and are not collected with them.
func TestKinds(t *testing.T) {
	blobs := archive.Dir{Path: t.TempDir()}
	one, other := open(t, blobs, nil), open(t, blobs, func(cfg *artefact.Config) { cfg.Kind = "workspace" })
	dir, names := write(t, map[string][]byte{"f": memory(1, 3)})
	saved, err := one.Save(t.Context(), "x", dir, names, nil)
	must(t, err)
	if err := other.Restore(t.Context(), saved.Ref, "x", 1<<30, t.TempDir()); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
}

// TestRound: what is restored is what was saved, and pages of zeros and those of the parent are not stored.
func TestRound(t *testing.T) {
	for name, b := range places(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, b, nil)
			files := map[string][]byte{
				"pages.img": memory(1, 333), "empty": {}, "zeros": make([]byte, 10*page), "odd": append(memory(2, 3), "the end"...), "small": []byte("{}"),
			}
			dir, names := write(t, files)
			first, err := s.Save(t.Context(), "one", dir, names, nil)
			must(t, err)
			if first.Reused != 0 || first.Stored == 0 || first.Bytes > 260*page {
				t.Errorf("%+v", first)
			}
			to := t.TempDir()
			must(t, s.Restore(t.Context(), first.Ref, "one", 1<<30, to))
			check(t, to, files)
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(to, "zeros"), &st); err != nil || st.Blocks > 0 || st.Mode&0o777 != 0o400 {
				t.Errorf("zeros: %d blocks, mode %o, %v", st.Blocks, st.Mode, err)
			}

			// Two pages in front move all others; a few change.
			moved := append(memory(3, 2), files["pages.img"]...)
			copy(moved[100*page:], memory(4, 8))
			next := map[string][]byte{"pages.img": moved, "small": []byte("{}")}
			dir2, names := write(t, next)
			second, err := s.Save(t.Context(), "two", dir2, names, &artefact.Parent{Ref: first.Ref, Dir: dir})
			must(t, err)
			if second.Reused < 200*page || second.Stored > 20*page {
				t.Errorf("%+v of a parent %+v", second, first)
			}
			must(t, s.Remove(t.Context(), first.Ref)) // its chunks stay
			to = t.TempDir()
			must(t, s.Restore(t.Context(), second.Ref, "two", 1<<30, to))
			check(t, to, next)

			// A parent that is gone is done without.
			third, err := s.Save(t.Context(), "three", dir2, names, &artefact.Parent{Ref: first.Ref, Dir: dir})
			must(t, err)
			if third.Reused != 0 {
				t.Errorf("%+v of a parent that is gone", third)
			}
		})
	}
}

// TestFewPages: a chunk of the parent of which little is used is not needed.
func TestFewPages(t *testing.T) {
	s := open(t, archive.Dir{Path: t.TempDir()}, nil)
	dir, names := write(t, map[string][]byte{"pages.img": memory(1, 400)})
	first, err := s.Save(t.Context(), "one", dir, names, nil)
	must(t, err)
	few := memory(9, 40)
	for i := range 10 { // one of each chunk
		copy(few[i*4*page:][:page], memory(1, 400)[i*32*page:][:page])
	}
	dir2, names := write(t, map[string][]byte{"pages.img": few})
	second, err := s.Save(t.Context(), "two", dir2, names, &artefact.Parent{Ref: first.Ref, Dir: dir})
	must(t, err)
	if second.Reused != 0 {
		t.Errorf("%+v", second)
	}
}

// TestRefused: what was changed in the blobs is refused.
func TestRefused(t *testing.T) {
	blobs := archive.Dir{Path: t.TempDir()}
	s := open(t, blobs, nil)
	files := map[string][]byte{"pages.img": memory(1, 64)}
	dir, names := write(t, files)
	saved, err := s.Save(t.Context(), "one", dir, names, nil)
	must(t, err)
	other, err := s.Save(t.Context(), "other", dir, names, nil)
	must(t, err)
	var chunks []string
	manifest := ""
	objects, err := filepath.Glob(filepath.Join(blobs.Path, "*"))
	must(t, err)
	content := map[string][]byte{}
	for _, o := range objects {
		if content[o], err = os.ReadFile(o); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(o, string(saved.Ref)+".manifest"):
			manifest = o
		case strings.HasSuffix(o, ".chunk"):
			chunks = append(chunks, o)
		}
		if bytes.Contains(content[o], []byte("text of page")) || bytes.Contains(content[o], []byte("pages.img")) {
			t.Errorf("%s is not encrypted", filepath.Base(o))
		}
	}
	restore := func(r artefact.Ref, label string, limit int64) error {
		return s.Restore(t.Context(), r, label, limit, t.TempDir())
	}
	must(t, restore(saved.Ref, "one", 64*page)) // the control
	flip := func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }
	for what, attack := range map[string]func() error{
		"manifest changed": func() error { return os.WriteFile(manifest, flip(content[manifest]), 0o600) },
		"manifest cut":     func() error { return os.Truncate(manifest, 20) },
		"manifest empty":   func() error { return os.Truncate(manifest, 0) },
		"manifest endless": func() error { return os.Truncate(manifest, 1<<40) },
		"manifest of other": func() error {
			return os.WriteFile(manifest, content[strings.Replace(manifest, string(saved.Ref), string(other.Ref), 1)], 0o600)
		},
		"chunk for manifest": func() error { return os.WriteFile(manifest, content[chunks[0]], 0o600) },
		"chunks changed": func() error {
			return each(chunks, func(c string) error { return os.WriteFile(c, flip(content[c]), 0o600) })
		},
		"chunks cut": func() error {
			return each(chunks, func(c string) error { return os.Truncate(c, int64(len(content[c])-1)) })
		},
		"chunks longer": func() error { return each(chunks, func(c string) error { return os.Truncate(c, 1<<40) }) },
		"chunks swapped": func() error {
			return each(chunks, func(c string) error { return os.WriteFile(c, content[chunks[0]], 0o600) })
		},
		"chunks removed": func() error { return each(chunks, os.Remove) },
		"chunks links": func() error {
			return each(chunks, func(c string) error { return errors.Join(os.Remove(c), os.Symlink("/etc/passwd", c)) })
		},
	} {
		must(t, attack())
		if err := restore(saved.Ref, "one", 64*page); err == nil || api.KindOf(err) == api.KindNotFound {
			t.Errorf("%s: %v", what, err)
		}
		for o, b := range content {
			os.Remove(o)
			must(t, os.WriteFile(o, b, 0o600))
		}
	}
	for what, err := range map[string]error{
		"of other":     restore(other.Ref, "one", 64*page),
		"too large":    restore(saved.Ref, "one", 64*page-1),
		"no reference": restore("../../etc/passwd", "one", 1<<30),
	} {
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	stranger := open(t, blobs, func(c *artefact.Config) { c.Key = bytes.Repeat([]byte{8}, 32) })
	if err := stranger.Restore(t.Context(), saved.Ref, "one", 1<<30, t.TempDir()); api.KindOf(err) != api.KindNotFound {
		t.Errorf("with another key: %v", err)
	}
	if err := restore(artefact.Ref(strings.Repeat("0", 64)), "one", 1<<30); api.KindOf(err) != api.KindNotFound {
		t.Errorf("none: %v", err)
	}
	must(t, restore(saved.Ref, "one", 64*page))
}

func each(names []string, do func(string) error) error {
	for _, n := range names {
		if err := do(n); err != nil {
			return err
		}
	}
	return nil
}

// TestSources: only plain files with plain names are stored.
func TestSources(t *testing.T) {
	s := open(t, archive.Dir{Path: t.TempDir()}, nil)
	dir, _ := write(t, map[string][]byte{"file": []byte("x")})
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"../file", "link", "pipe", ".", "", "gone", strings.Repeat("n", 200)} {
		if _, err := s.Save(t.Context(), "one", dir, []string{name}, nil); err == nil {
			t.Errorf("%q was stored", name)
		}
	}
	if _, err := s.Save(t.Context(), "one", dir, []string{"file"}, nil); err != nil {
		t.Error(err)
	}
}

// TestInterrupted: a save that ends at any point leaves no artefact, and nothing that is not collected.
func TestInterrupted(t *testing.T) {
	for _, point := range []string{"chunk", "manifest"} {
		blobs := archive.Dir{Path: t.TempDir()}
		now := time.Now()
		s := open(t, blobs, func(c *artefact.Config) {
			c.Now = func() time.Time { return now }
			c.At = func(p string) error {
				if p == point {
					return errors.New("interrupted")
				}
				return nil
			}
		})
		dir, names := write(t, map[string][]byte{"pages.img": memory(1, 200)})
		if saved, err := s.Save(t.Context(), "one", dir, names, nil); err == nil || saved.Ref != "" {
			t.Errorf("%s: %+v, %v", point, saved, err)
		}
		names, err := blobs.List(t.Context(), "", 1000)
		if err != nil || len(names) == 0 {
			t.Errorf("%s: %v, %v", point, names, err)
		}
		for _, n := range names {
			if strings.HasSuffix(n, ".manifest") {
				t.Errorf("%s: there is a manifest", point)
			}
		}
		none := func(context.Context) ([]artefact.Ref, error) { return nil, nil }
		for i, left := range []int{len(names), len(names), 0} {
			if i == 2 {
				now = now.Add(artefact.Grace)
			}
			if _, err := s.Collect(t.Context(), none); err != nil {
				t.Fatal(err)
			}
			if after, _ := blobs.List(t.Context(), "", 1000); len(after) != left {
				t.Errorf("%s: after collection %d: %d objects, not %d", point, i+1, len(after), left)
			}
		}
	}
}

// TestCollect: what an artefact needs stays, whoever stored it, and objects of other stores are not touched.
func TestCollect(t *testing.T) {
	blobs := archive.Dir{Path: t.TempDir()}
	now := time.Now()
	s := open(t, blobs, func(c *artefact.Config) { c.Now = func() time.Time { return now } })
	stranger := open(t, blobs, func(c *artefact.Config) { c.Key = bytes.Repeat([]byte{8}, 32) })
	dir, names := write(t, map[string][]byte{"pages.img": memory(1, 200)})
	theirs, err := stranger.Save(t.Context(), "theirs", dir, names, nil)
	must(t, err)
	must(t, blobs.Put(t.Context(), "sha256-0.json", strings.NewReader("a layer")))
	first, err := s.Save(t.Context(), "one", dir, names, nil)
	must(t, err)
	second, err := s.Save(t.Context(), "two", dir, names, &artefact.Parent{Ref: first.Ref, Dir: dir})
	must(t, err)
	live := []artefact.Ref{first.Ref, second.Ref}
	collect := func() error {
		var all error
		for range 3 {
			_, err := s.Collect(t.Context(), func(context.Context) ([]artefact.Ref, error) { return live, nil })
			all = errors.Join(all, err)
			now = now.Add(artefact.Grace)
		}
		return all
	}
	must(t, collect())
	must(t, s.Restore(t.Context(), first.Ref, "one", 1<<30, t.TempDir()))
	live = live[1:] // the first has no row any more; the second needs its chunks
	must(t, collect())
	if err := s.Restore(t.Context(), first.Ref, "one", 1<<30, t.TempDir()); api.KindOf(err) != api.KindNotFound {
		t.Errorf("collected: %v", err)
	}
	must(t, s.Restore(t.Context(), second.Ref, "two", 1<<30, t.TempDir()))

	// A manifest that cannot be read may name any chunk.
	unread, err := s.Save(t.Context(), "three", dir, names, nil)
	must(t, err)
	other := open(t, blobs, func(c *artefact.Config) { c.Now = func() time.Time { return now } })
	path, err := filepath.Glob(filepath.Join(blobs.Path, "*"+string(unread.Ref)+".manifest"))
	must(t, err)
	whole, err := os.ReadFile(path[0])
	must(t, err)
	must(t, os.WriteFile(path[0], []byte("damaged"), 0o600))
	live = append(live, unread.Ref)
	s = other
	if err := collect(); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a damaged manifest: %v", err)
	}
	must(t, os.WriteFile(path[0], whole, 0o600))
	must(t, s.Restore(t.Context(), unread.Ref, "three", 1<<30, t.TempDir()))

	live = nil
	must(t, collect())
	must(t, collect()) // the chunks after their manifests
	must(t, stranger.Restore(t.Context(), theirs.Ref, "theirs", 1<<30, t.TempDir()))
	left, err := blobs.List(t.Context(), "", 1000)
	must(t, err)
	for _, n := range left {
		if strings.HasPrefix(n, s.Prefix()) {
			t.Errorf("left: %s", n)
		}
	}
}

// TestUnreachable: an archive that is not there fails with its reason.
func TestUnreachable(t *testing.T) {
	s := open(t, archive.Dir{Path: filepath.Join(t.TempDir(), "gone")}, nil)
	dir, names := write(t, map[string][]byte{"pages.img": memory(1, 20)})
	if _, err := s.Save(t.Context(), "one", dir, names, nil); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("save: %v", err)
	}
	if err := s.Restore(t.Context(), artefact.Ref(strings.Repeat("0", 64)), "one", 1<<30, t.TempDir()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("restore: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, archive.Dir{Path: t.TempDir()}, nil).Save(ctx, "one", dir, names, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestFull: a disk that is full while an artefact is restored, or stored, is said to be.
func TestFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	small := t.TempDir()
	must(t, unix.Mount("tmpfs", small, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { must(t, unix.Unmount(small, unix.MNT_DETACH)) })
	dir, names := write(t, map[string][]byte{"pages.img": memory(1, 400)})
	s := open(t, archive.Dir{Path: t.TempDir()}, nil)
	saved, err := s.Save(t.Context(), "one", dir, names, nil)
	must(t, err)
	if err := s.Restore(t.Context(), saved.Ref, "one", 1<<30, small); api.KindOf(err) != api.KindExhausted {
		t.Errorf("restored: %v", err)
	}
	must(t, os.Remove(filepath.Join(small, "pages.img")))
	if _, err := open(t, archive.Dir{Path: small}, nil).Save(t.Context(), "one", dir, names, nil); api.KindOf(err) != api.KindExhausted {
		t.Errorf("stored: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	sum := strings.Repeat("0", 64)
	f.Add([]byte(`{"version":1,"label":"x","files":[{"name":"a","bytes":5000,"extents":[[0,0,0,2]]}],"chunks":[{"sha256":"` + sum + `","bytes":9,"pages":2}]}`))
	f.Add([]byte(`{"version":1,"label":"x","files":[{"name":"../a","bytes":5000}]}`))
	f.Add([]byte(`{"version":1,"files":[{"name":"a","bytes":9223372036854775807,"extents":[[9223372036854775807,0,0,1],[0,-1,-1,-1]]}],"chunks":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) { artefact.CheckManifest(t, b, 1<<20) })
}

// BenchmarkArtefact measures 100 MiB of memory, as of a guest, for sizes of chunks, in a directory and an object store:
//
//	go test ./internal/storage/artefact -run xxx -bench . -benchtime 5x
func BenchmarkArtefact(b *testing.B) {
	const mib = 1 << 20
	content := memory(1, 100*mib/page)
	for i := range content { // half of the random pages compress to three quarters
		if i/page%4 == 1 {
			content[i] &= 0x3f
		}
	}
	dir, names := write(b, map[string][]byte{"pages.img": content})
	stores := places(b)
	for _, size := range []int{256 << 10, mib, 4 * mib, 16 * mib} {
		for _, place := range []string{"directory", "object store"} {
			s := open(b, stores[place], func(c *artefact.Config) { c.ChunkBytes = size })
			var saved artefact.Saved
			b.Run(fmt.Sprintf("save/%s/%dKiB", place, size>>10), func(b *testing.B) {
				for b.Loop() {
					var err error
					saved, err = s.Save(b.Context(), "one", dir, names, nil)
					must(b, err)
				}
				b.ReportMetric(float64(saved.Stored)/mib, "MiB")
			})
			b.Run(fmt.Sprintf("restore/%s/%dKiB", place, size>>10), func(b *testing.B) {
				for b.Loop() {
					to := b.TempDir()
					must(b, s.Restore(b.Context(), saved.Ref, "one", 1<<30, to))
					must(b, os.RemoveAll(to))
				}
			})
		}
	}
}
