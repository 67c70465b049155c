package sandboxtest

import (
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// forkMemoryCases are about what is counted of memory that sandboxes share.
func forkMemoryCases() []Case {
	const pages, size = 16384, 64 << 20 // of the program
	const little = size / 2             // of a sandbox, beside the program
	between := func(t *testing.T, what string, got, low, high int64) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("%s: %d MB, want %d to %d", what, got>>20, low>>20, high>>20)
		}
	}
	// use is the memory of sandboxes. It ends the test where the host counts none.
	use := func(t *testing.T, sandboxes ...*Sandbox) (each []api.Stats, all api.MemoryUse) {
		t.Helper()
		stats := map[api.SandboxID]api.Stats{}
		for _, b := range sandboxes {
			s := b.stats(t)
			if s.MemoryOwnBytes < 0 {
				t.Skip("this host counts no memory of a sandbox")
			}
			each, stats[b.ID] = append(each, s), s
		}
		return each, api.MemoryOf(stats)
	}
	read := func(t *testing.T, sandboxes ...*Sandbox) {
		t.Helper()
		for _, b := range sandboxes {
			b.page(t, "", "1x16384")
		}
	}
	return []Case{
		{Name: "fork/memory-is-counted-once", Alone: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.startPages(t, pages)
			parent, _ := use(t, b) // the control
			between(t, "the parent's own", parent[0].MemoryOwnBytes, size, size+little)
			between(t, "what it shares", parent[0].MemorySharedBytes, 0, 0)
			children := s.fork(t, b, 3)
			read(t, children...)
			each, all := use(t, append([]*Sandbox{b}, children...)...)
			own := each[0].MemoryOwnBytes
			for _, c := range each[1:] {
				between(t, "a child's own", c.MemoryOwnBytes, 1, little)
				between(t, "what it shares", c.MemorySharedBytes, size, size+little)
				own += c.MemoryOwnBytes
			}
			between(t, "together, own", all.OwnBytes, own, own)
			between(t, "together, beside the parent's", all.SharedBytes, 0, 0)
			// What a child writes is its own.
			c := children[0]
			c.page(t, "w 0 4096 9", "9x4096 1x12288")
			wrote, _ := use(t, c)
			// A kernel may have released what its start used in the meantime, about 3 MB.
			between(t, "own, after it wrote", wrote[0].MemoryOwnBytes-each[1].MemoryOwnBytes, 8<<20, 24<<20)
			// Meanwhile it may have read a few more pages of its parent.
			between(t, "no more shared", each[1].MemorySharedBytes-wrote[0].MemorySharedBytes, 12<<20, 24<<20)
			// A paused one shares what it did.
			if _, ok := s.Report.Has(api.CapPause); ok {
				if err := c.Machine.Pause(t.Context()); err != nil {
					t.Fatal(err)
				}
				paused, _ := use(t, c)
				between(t, "shared while it is paused", paused[0].MemorySharedBytes, wrote[0].MemorySharedBytes, wrote[0].MemorySharedBytes)
				if err := c.Machine.Resume(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			// Memory of a parent that has ended is there once for all of its children.
			s.kill(t, b)
			each, all = use(t, children...)
			between(t, "what two children have", each[1].MemorySharedBytes+each[2].MemorySharedBytes, 2*size, 2*(size+little))
			between(t, "together, of the ended parent", all.SharedBytes, size, size+little)
		}},
		{Name: "fork/limit-counts-own-memory", Alone: true, Needs: []api.Capability{api.CapStart, api.CapLimitMemory}, Check: func(t *testing.T, s *Suite) {
			if s.FullKernel {
				t.Skip("a virtual machine has the memory of its limit, shared or not")
			}
			limit := func(p *sandbox.Spec) { p.Limits.MemoryBytes, p.Asked.Memory = 144<<20, true }
			// The second number is how long, because a guest looks at times.
			more := []string{"python3", "-c", "import sys, time; b = bytearray(int(sys.argv[1]) << 20); time.sleep(int(sys.argv[2])); print(len(b) >> 20)"}
			b := s.startPagesOf(t, pages, limit)
			c := s.fork(t, b, 1)[0]
			read(t, c)
			// Beside the 64 MB that it shares.
			c.run(t, "", append(more, "90", "1")...).want(t, 0, "90\n")
			if r := c.run(t, "", append(more, "160", "60")...); r.Code() == 0 {
				t.Error("a child has more memory of its own than the limit")
			}
			if r := b.run(t, "", append(more, "90", "60")...); r.Code() == 0 {
				t.Error("its parent, whose own those 64 MB are, has more than the limit")
			}
		}},
		{Name: "fork/memory-of-an-image-is-counted-once", Alone: true, Needs: start1, Check: func(t *testing.T, s *Suite) {
			b := s.startPages(t, pages)
			before, _ := use(t, b)
			shared, copied := s.save(t, b, sandbox.SaveOptions{}), s.save(t, b, sandbox.SaveOptions{CopyMemory: true})
			after, _ := use(t, b)
			between(t, "own, added by images that the host caches", after[0].MemoryOwnBytes-before[0].MemoryOwnBytes, -little, little)
			s.kill(t, b)
			sandboxes := []*Sandbox{s.restore(t, shared), s.restore(t, shared)}
			read(t, sandboxes...)
			each, all := use(t, sandboxes...)
			for _, c := range each {
				between(t, "own", c.MemoryOwnBytes, 1, little)
				between(t, "shared", c.MemorySharedBytes, size, size+little)
			}
			between(t, "together, shared", all.SharedBytes, size, size+little)
			c := s.restore(t, copied) // the control
			read(t, c)
			each, all = use(t, c)
			between(t, "own, copied", each[0].MemoryOwnBytes, size, 2*size) // with what its own kernel used to restore it
			between(t, "shared, copied", all.SharedBytes+each[0].MemorySharedBytes, 0, 0)
		}},
	}
}
