package density_test

import (
	"context"
	"errors"
	"testing"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/density"
)

// host makes children up to a limit, and knows which are there.
type host struct {
	most   int
	living map[api.SandboxID]bool
}

func (h *host) Fork(_ context.Context, _ api.SandboxID, req api.ForkSandbox) (r api.ForkResult, err error) {
	for range req.Count {
		if len(h.living) == h.most {
			r.Children = append(r.Children, api.ForkChild{Error: &api.Error{Kind: api.KindExhausted, Message: "no more"}})
			continue
		}
		id := api.NewSandboxID()
		h.living[id] = true
		r.Children = append(r.Children, api.ForkChild{Sandbox: &api.Sandbox{ID: id}})
	}
	return r, nil
}

func (h *host) Stats(_ context.Context, id api.SandboxID) (api.Stats, error) {
	return api.Stats{MemoryOwnBytes: 10, MemorySharedBytes: 90, SharedMemory: []api.SharedMemory{{Name: "a", Bytes: 90, TotalBytes: 100}}}, nil
}

func (h *host) Kill(_ context.Context, id api.SandboxID) (s api.Sandbox, p api.Proof, err error) {
	if !h.living[id] {
		err = errors.New("killed twice")
	}
	delete(h.living, id)
	return s, p, err
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		name     string
		admits   int // of the host
		room     int // batches
		children int
		timed    int
		why      string
	}{
		{"all", 100, 100, 25, 25, ""},
		{"no memory", 100, 2, 20, 20, "full"},
		{"none admitted", 13, 100, 13, 10, "no more"},
		{"no memory for one", 100, 0, 0, 0, "full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{most: c.admits, living: map[api.SandboxID]bool{}}
			rooms, writes := 0, 0
			r, err := density.Fill(t.Context(), density.Config{
				Forker: h, Sandboxes: h, Parent: api.NewSandboxID(), Most: 25, Batch: 10, Step: func(int) {},
				Room: func(int) string {
					if rooms++; rooms > c.room {
						return "full"
					}
					return ""
				},
				Command: func(_ context.Context, id api.SandboxID) error {
					if !h.living[id] {
						t.Errorf("%s is not there", id)
					}
					return nil
				},
				Write: func(context.Context, api.SandboxID) error {
					if writes++; writes == 3 {
						return errors.New("not written")
					}
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Children != c.children || len(r.Made) != c.timed || r.Why != c.why {
				t.Errorf("%d children, %d times, why %q", r.Children, len(r.Made), r.Why)
			}
			if len(h.living) != 0 {
				t.Errorf("%d children are left", len(h.living))
			}
			if c.children == 0 {
				return
			}
			if len(r.Commands.Times) != c.children || r.Commands.Failed != 0 {
				t.Errorf("%d commands ran, %d failed", len(r.Commands.Times), r.Commands.Failed)
			}
			if len(r.Write.Times) != c.children-1 || r.Write.Failed != 1 || r.Write.First == nil {
				t.Errorf("%d wrote, %d failed: %v", len(r.Write.Times), r.Write.Failed, r.Write.First)
			}
			if want := (api.MemoryUse{OwnBytes: int64(10 * c.children), SharedBytes: 100}); r.Own != 10 || r.Shared != 90 || r.Together != want {
				t.Errorf("a child has %v and %v, together %+v", r.Own, r.Shared, r.Together)
			}
		})
	}
}

// TestFillStops: children are gone also when nobody waits any more.
func TestFillStops(t *testing.T) {
	h := &host{most: 100, living: map[api.SandboxID]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := density.Fill(ctx, density.Config{
		Forker: h, Sandboxes: h, Most: 25, Batch: 10, Step: func(int) {}, Room: func(int) string { return "" },
		Command: func(context.Context, api.SandboxID) error { cancel(); return nil },
		Write:   func(context.Context, api.SandboxID) error { t.Error("a child wrote"); return nil },
	})
	if !errors.Is(err, context.Canceled) || len(h.living) != 0 {
		t.Errorf("%v, %d children are left", err, len(h.living))
	}
}
