package sandboxtest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// pages is a program that has private memory of so many pages. It answers "w FIRST END VALUE", which
// fills pages with a value, and every other line, with what all pages have: the value and the number of
// pages in a row, "bad" for a page of more than one value.
//
//go:embed programs/pages.py
var pages string

// startPages starts the program in a new sandbox.
func (s *Suite) startPages(t *testing.T, n int) *Sandbox { return s.startPagesOf(t, n, nil) }

func (s *Suite) startPagesOf(t *testing.T, n int, change func(*sandbox.Spec)) *Sandbox {
	t.Helper()
	s.restorer(t)
	if _, ok := s.Report.Has(api.CapCheckpoint); !ok {
		t.Skipf("%s forks no memory", s.Backend.Name())
	}
	b := s.start(t, change)
	b.run(t, "", "sh", "-c", `printf %s "$1" >pages.py; setsid python3 pages.py "$2" >log 2>&1 </dev/null & until [ -p ask ]; do sleep 0.05; done`,
		"sh", pages, fmt.Sprint(n)).want(t, 0, "")
	return b
}

// page asks the program.
func (b *Sandbox) page(t *testing.T, line, want string) {
	t.Helper()
	r := b.run(t, "", "sh", "-c", `echo "$1" >ask; cat answer`, "sh", line)
	if got := strings.TrimSpace(r.Stdout); got != want {
		t.Errorf("%s: after %q it has %q, want %q (%s)", b.ID, line, got, want, r.Stderr)
	}
}

// fork makes sandboxes of another one, as many at once as fit.
func (s *Suite) fork(t *testing.T, b *Sandbox, n int) []*Sandbox {
	t.Helper()
	dir, saved, err := b.trySave(t, sandbox.SaveOptions{Fork: true})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	if saved.Done != nil {
		defer saved.Done()
	}
	out := make([]*Sandbox, n)
	turns := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			c, m, spec, err := s.tryRestore(t, dir)
			if err != nil {
				t.Errorf("child %d: %v", i, err)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
			defer cancel()
			if err := m.Claim(ctx, spec.Env); err != nil {
				t.Errorf("child %d: %v", i, err)
				return
			}
			out[i] = c
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out
}

func forkCases() []Case {
	return []Case{
		{Name: "fork/no-page-is-anothers", PerUser: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			const n = 1024
			b := s.startPages(t, n)
			children := s.fork(t, b, tier.Count(3, 100))
			b.page(t, "w 0 10 2", "2x10 1x1014")
			for i, c := range children {
				v := 3 + i
				c.page(t, fmt.Sprintf("w %d %d %d", 20+i, 500+i, v), fmt.Sprintf("1x%d %dx480 1x%d", 20+i, v, n-500-i))
			}
			b.page(t, "", "2x10 1x1014")
			// A child is a parent, while its own writes too, and after it has ended.
			c := children[0]
			grand := s.fork(t, c, 2)
			c.page(t, "w 0 1024 200", "200x1024")
			b.page(t, "w 0 1024 201", "201x1024")
			grand[0].page(t, "w 1023 1024 202", "1x20 3x480 1x523 202x1")
			s.kill(t, c)
			s.kill(t, b)
			grand[1].page(t, "", "1x20 3x480 1x524")
			for i, c := range children[1:] {
				c.page(t, "", fmt.Sprintf("1x%d %dx480 1x%d", 21+i, 4+i, n-501-i))
			}
			great := s.fork(t, grand[0], 1)[0]
			s.kill(t, grand[0])
			great.page(t, "w 0 1 203", "203x1 1x19 3x480 1x523 202x1")
		}},
		{Name: "fork/processes-of-a-child-fork", Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.startPages(t, 64)
			c := s.fork(t, b, 1)[0]
			// What a process of the child forks shares its pages, until one of both writes.
			c.run(t, "", "python3", "-c", `import mmap, os
m = mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m[:] = b"a" * (1 << 22)
pid = os.fork()
if pid == 0:
    m[:1 << 21] = b"b" * (1 << 21)
    os._exit(0 if m[1 << 21:] == b"a" * (1 << 21) else 1)
m[1 << 21:] = b"c" * (1 << 21)
print(os.waitpid(pid, 0)[1], m[:1 << 21] == b"a" * (1 << 21))`).want(t, 0, "0 True\n")
			c.page(t, "w 0 64 9", "9x64")
			b.page(t, "", "1x64")
		}},
		{Name: "fork/memory-is-given-back", Alone: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			const n = 16384 // 64 MB
			b := s.startPages(t, n)
			var first int64
			for i := range 8 {
				// A fork after which the parent writes everything: it needs the memory twice
				// while the child is there, and once afterwards.
				c := s.fork(t, b, 1)[0]
				b.page(t, fmt.Sprintf("w 0 %d %d", n, i+2), fmt.Sprintf("%dx%d", i+2, n))
				c.page(t, "", fmt.Sprintf("%dx%d", i+1, n))
				s.kill(t, c)
				used := b.memory(t)
				if i == 1 {
					first = used
				}
				if i > 1 && used > first+2*n*4096 {
					t.Fatalf("after fork %d it has %d MB, after the second it had %d", i+1, used>>20, first>>20)
				}
			}
		}},
		{Name: "fork/idle-child-is-idle", Alone: true, Needs: []api.Capability{api.CapStart, api.CapLimitCPUTime}, Check: func(t *testing.T, s *Suite) {
			b := s.startPages(t, 64)
			c := s.fork(t, b, 1)[0]
			c.page(t, "w 0 64 9", "9x64")
			// While the parent, which has nothing to do either, uses so much.
			const some = 40 * time.Millisecond
			parent, child := b.cpu(t), c.cpu(t)
			eventually(t, "the parent uses processor time", func() bool { return b.cpu(t)-parent > some })
			if used := c.cpu(t) - child; used > 3*some {
				t.Errorf("its child used %v meanwhile", used)
			}
		}},
		{Name: "fork/its-image-is-for-a-moment", Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.startPages(t, 64)
			dir, saved, err := b.trySave(t, sandbox.SaveOptions{Fork: true})
			if err != nil {
				t.Fatal(err)
			}
			s.restore(t, dir).page(t, "", "1x64") // the control
			if saved.Done == nil {
				t.Skip("the image contains the memory")
			}
			saved.Done()
			if _, _, _, err := s.tryRestore(t, dir); api.KindOf(err) != api.KindConflict {
				t.Errorf("restored after its end: %v", err)
			}
			// One that is kept contains all that it needs, also that of a child.
			c := s.fork(t, b, 1)[0]
			kept := s.save(t, c, sandbox.SaveOptions{})
			s.kill(t, c)
			s.kill(t, b)
			s.restore(t, kept).page(t, "w 1 2 5", "1x1 5x1 1x62")
			s.restore(t, kept).page(t, "", "1x64")
		}},
		{Name: "fork/kept-image-has-no-more", Alone: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			const n = 16384 // 64 MB
			b := s.startPages(t, n)
			c := s.fork(t, b, 1)[0]
			// From now on the parent has its own and what the child refers to.
			b.page(t, fmt.Sprintf("w 0 %d 2", n), fmt.Sprintf("2x%d", n))
			for name, o := range map[string]sandbox.SaveOptions{"shared": {}, "copied": {CopyMemory: true}} {
				dir := s.save(t, b, o)
				st, err := os.Stat(filepath.Join(dir, "pages.img"))
				if s.FullKernel {
					// The image of a virtual machine has all of its memory, and its kernel uses some.
				} else if err != nil || st.Size() < n*4096 || st.Size() > n*4096*7/4 {
					t.Errorf("%s: the pages of 64 MB: %+v, %v", name, st, err)
				}
				r := s.restore(t, dir)
				r.page(t, "w 0 1 3", fmt.Sprintf("3x1 2x%d", n-1))
				if used := r.memory(t); used > n*4096*2 && !s.FullKernel {
					t.Errorf("%s: restored, it uses %d MB", name, used>>20)
				}
				s.kill(t, r)
			}
			c.page(t, "", fmt.Sprintf("1x%d", n))
		}},
		{Name: "fork/cut-base-is-refused", Needs: start1, Check: func(t *testing.T, s *Suite) {
			c := s.restore(t, s.save(t, s.startPages(t, 1024), sandbox.SaveOptions{}))
			dir := s.save(t, c, sandbox.SaveOptions{})
			bases, err := filepath.Glob(filepath.Join(dir, "base-*.img"))
			if err != nil || len(bases) == 0 {
				t.Skipf("the image of a restored box contains all its memory (%v)", err)
			}
			s.restore(t, dir).page(t, "", "1x1024") // the control
			// Another file in its place: c has this one too.
			whole, err := os.ReadFile(bases[0])
			if err == nil {
				err = os.Remove(bases[0])
			}
			if err == nil {
				err = os.WriteFile(bases[0], whole[:len(whole)/2&^4095], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := s.tryRestore(t, dir); api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("restored: %v", err)
			}
			c.page(t, "", "1x1024")
		}},
		{Name: "fork/copied-memory", Needs: start1, Check: func(t *testing.T, s *Suite) {
			c := s.fork(t, s.startPages(t, 64), 1)[0]
			c.page(t, "w 0 8 7", "7x8 1x56")
			kept := s.save(t, c, sandbox.SaveOptions{CopyMemory: true})
			s.kill(t, c)
			s.restore(t, kept).page(t, "", "7x8 1x56")
			if _, _, err := s.startPages(t, 1).trySave(t, sandbox.SaveOptions{Files: true, CopyMemory: true}); api.KindOf(err) != api.KindInvalid {
				t.Errorf("files only, with copied memory: %v", err)
			}
		}},
	}
}

// cpu is the processor time that a sandbox has used, as the host counts it.
func (b *Sandbox) cpu(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(b.stats(t).CPUTimeMS) * time.Millisecond
}

// memory is what a sandbox uses, as the host counts it, in bytes.
func (b *Sandbox) memory(t *testing.T) int64 {
	t.Helper()
	return b.stats(t).MemoryBytes
}

func (b *Sandbox) stats(t *testing.T) api.Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	st, err := b.Machine.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
