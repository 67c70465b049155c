package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testEvents(t *testing.T, s store.Store) {
	ctx := t.Context()
	one, two := api.Stream{Kind: api.StreamTask, ID: "x"}, api.Stream{Kind: api.StreamSandbox, ID: "x"}
	var want []api.Event
	for i := range 5 {
		var data json.RawMessage
		if i > 0 {
			data = json.RawMessage(fmt.Sprintf(`{"i":%d, "s":"\ufdd0 ü"}`, i))
		}
		for _, stream := range []api.Stream{one, two} {
			seq, err := s.AppendEvent(ctx, stream, api.EventModel, began, data)
			must(t, err)
			if seq != int64(i+1) {
				t.Fatalf("event %d got number %d", i+1, seq)
			}
		}
		want = append(want, api.Event{Stream: one, Seq: int64(i + 1), At: began, Type: api.EventModel, Data: data})
	}
	for _, test := range []struct {
		after int64
		limit int
		want  []api.Event
	}{{0, 10, want}, {0, 5, want}, {0, 2, want[:2]}, {3, 10, want[3:]}, {5, 10, nil}, {99, 1, nil}} {
		got, err := s.ReadEvents(ctx, one, test.after, test.limit)
		must(t, err)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("after %d, limit %d: %s", test.after, test.limit, diff)
		}
	}
	got, err := s.ReadEvents(ctx, api.Stream{Kind: api.StreamTask, ID: "y"}, 0, 9)
	must(t, err)
	if got != nil {
		t.Errorf("a stream without events has %d", len(got))
	}
}

// testEventPages reads much data in pages: bounded, and none lost.
func testEventPages(t *testing.T, s store.Store) {
	stream := api.Stream{Kind: api.StreamTask, ID: "big"}
	data, err := json.Marshal(strings.Repeat("x", 1<<20-2))
	must(t, err)
	for range 4 {
		_, err := s.AppendEvent(t.Context(), stream, api.EventOutput, began, data)
		must(t, err)
	}
	var n int64
	for {
		page, err := s.ReadEvents(t.Context(), stream, n, 100)
		must(t, err)
		if len(page) == 0 {
			break
		}
		if len(page) > 2 {
			t.Errorf("a page of %d MiB", len(page))
		}
		for _, e := range page {
			if n++; e.Seq != n || len(e.Data) != 1<<20 {
				t.Fatalf("event %d is number %d with %d bytes", n, e.Seq, len(e.Data))
			}
		}
	}
	if n != 4 {
		t.Fatalf("read %d of 4 events", n)
	}
}

func testConcurrentAppend(t *testing.T, s store.Store) {
	const writers, each = 8, 50
	stream := api.Stream{Kind: api.StreamTask, ID: "shared"}
	given := make([][]int64, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				seq, err := s.AppendEvent(t.Context(), stream, api.EventOutput, began, fmt.Appendf(nil, "[%d,%d]", w, i))
				if err != nil {
					t.Error(err)
					return
				}
				given[w] = append(given[w], seq)
			}
		})
	}
	wg.Wait()
	all := readAll(t, s, stream)
	if len(all) != writers*each {
		t.Fatalf("%d events of %d", len(all), writers*each)
	}
	// Each writer's number leads to its own event.
	for w := range given {
		for i, seq := range given[w] {
			if want := fmt.Sprintf("[%d,%d]", w, i); string(all[seq-1].Data) != want {
				t.Fatalf("number %d holds %s, was given for %s", seq, all[seq-1].Data, want)
			}
		}
	}
}

// readAll reads a stream and checks that its numbers have no gap.
func readAll(t *testing.T, s store.Store, stream api.Stream) (all []api.Event) {
	t.Helper()
	for {
		page, err := s.ReadEvents(t.Context(), stream, int64(len(all)), 100)
		must(t, err)
		if len(page) == 0 {
			return all
		}
		for _, e := range page {
			all = append(all, e)
			if e.Seq != int64(len(all)) {
				t.Fatalf("number %d at place %d", e.Seq, len(all))
			}
		}
	}
}
