package event

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
)

var (
	task  = api.Stream{Kind: api.StreamTask, ID: "t4f2a"}
	other = api.Stream{Kind: api.StreamSandbox, ID: "t4f2a"}
)

func newLog(t testing.TB) *Log {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "hortus.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return NewLog(Config{Store: db})
}

func appendN(t testing.TB, l *Log, s api.Stream, n int) {
	t.Helper()
	for i := range n {
		if _, err := l.Append(t.Context(), s, api.EventModel, i); err != nil {
			t.Fatal(err)
		}
	}
}

// wantNext takes n events from a running loop and checks their numbers.
func wantNext(t *testing.T, got <-chan int64, from, to int64) {
	t.Helper()
	for want := from; want <= to; want++ {
		select {
		case seq, ok := <-got:
			if !ok || seq != want {
				t.Fatalf("got number %d (more to come: %v), want %d", seq, ok, want)
			}
		case <-time.After(patience.Of(60 * time.Second)):
			t.Fatalf("number %d never came", want)
		}
	}
}

// follow runs a follower in a goroutine that ends before the test does.
func follow(t *testing.T, ctx context.Context, l *Log, s api.Stream, after int64) <-chan int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	got := make(chan int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(got)
		for e, err := range l.Follow(ctx, s, after) {
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case got <- e.Seq:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return got
}

func wantTopics(t *testing.T, l *Log, n int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.topics) != n {
		t.Errorf("%d streams take memory, want %d", len(l.topics), n)
	}
}

func TestAppend(t *testing.T) {
	l := newLog(t)
	l.now = func() time.Time {
		return time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.FixedZone("east", 3600))
	}
	first, err := l.Append(t.Context(), task, api.EventTaskStarted, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	want := api.Event{Stream: task, Seq: 1, At: time.Date(2026, 1, 2, 2, 4, 5, 123456000, time.UTC),
		Type: api.EventTaskStarted, Data: json.RawMessage(`{}`)}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	second, err := l.Append(t.Context(), task, api.EventTaskCancel, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := l.Read(t.Context(), task, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]api.Event{first, second}, stored); diff != "" {
		t.Error(diff)
	}
	wantTopics(t, l, 0)
}

func TestAppendRefuses(t *testing.T) {
	l := newLog(t)
	for _, test := range []struct {
		name   string
		stream api.Stream
		typ    api.EventType
		data   any
	}{
		{"no kind", api.Stream{ID: "x"}, "x", nil},
		{"no id", api.Stream{Kind: "task"}, "x", nil},
		{"no type", task, "", nil},
		{"a channel", task, "x", make(chan int)},
		{"not a number", task, "x", math.NaN()},
		{"too large", task, "x", strings.Repeat("x", MaxData-1)},
	} {
		_, err := l.Append(t.Context(), test.stream, test.typ, test.data)
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if e, err := l.Append(t.Context(), task, "x", strings.Repeat("x", MaxData-2)); err != nil || e.Seq != 1 {
		t.Errorf("the largest event: number %d, %v", e.Seq, err)
	}
	for _, bad := range [][2]int{{-1, 1}, {0, -1}} {
		if _, err := l.Read(t.Context(), task, int64(bad[0]), bad[1]); api.KindOf(err) != api.KindInvalid {
			t.Errorf("read %v: %v", bad, err)
		}
	}
}

// TestBytesInEvents holds what Append says of strings that are not UTF-8.
func TestBytesInEvents(t *testing.T) {
	l := newLog(t)
	wild := "a\xffb"
	e, err := l.Append(t.Context(), task, api.EventOutput, api.OutputEvent{Stream: wild, Data: []byte(wild)})
	if err != nil {
		t.Fatal(err)
	}
	var got api.OutputEvent
	if err := json.Unmarshal(e.Data, &got); err != nil {
		t.Fatal(err)
	}
	if string(got.Data) != wild || got.Stream != "a\uFFFDb" {
		t.Errorf("got data %q, stream %q", got.Data, got.Stream)
	}
}

func TestFollowStoredThenLive(t *testing.T) {
	l := newLog(t)
	appendN(t, l, task, 300)
	all := follow(t, t.Context(), l, task, 0)
	tail := follow(t, t.Context(), l, task, 298)
	ahead := follow(t, t.Context(), l, task, 301)
	appendN(t, l, other, 1)
	wantNext(t, all, 1, 300)
	wantNext(t, tail, 299, 300)
	appendN(t, l, task, 2)
	wantNext(t, all, 301, 302)
	wantNext(t, tail, 301, 302)
	wantNext(t, ahead, 302, 302)
}

func TestFollowWhileManyAppend(t *testing.T) {
	const writers, each, followers = 8, 40, 6
	l := newLog(t)
	var streams []<-chan int64
	for i := range followers {
		streams = append(streams, follow(t, t.Context(), l, task, int64(i)))
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := l.Append(t.Context(), task, api.EventModel, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i, got := range streams {
		wg.Go(func() { wantNext(t, got, int64(i)+1, writers*each) })
	}
	wg.Wait()
}

func TestSlowFollowerDelaysNobody(t *testing.T) {
	l := newLog(t)
	appendN(t, l, task, 1)
	slow := follow(t, t.Context(), l, task, 0)
	fast := follow(t, t.Context(), l, task, 0)
	wantNext(t, slow, 1, 1) // and takes no more
	appendN(t, l, task, 3*pageEvents)
	wantNext(t, fast, 1, 3*pageEvents+1)
	wantNext(t, slow, 2, 3*pageEvents+1)
}

func TestFollowEnds(t *testing.T) {
	l := newLog(t)
	appendN(t, l, task, 3)
	n := 0
	for range l.Follow(t.Context(), task, 0) {
		if n++; n == 2 {
			wantTopics(t, l, 1)
			break
		}
	}
	wantTopics(t, l, 0)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e, err := range l.Follow(ctx, task, 0) {
		if err != nil {
			t.Error(err)
		}
		if e.Seq == 3 {
			cancel() // it sleeps after this one
		}
		if e.Seq > 3 {
			t.Error("yielded after its context ended")
		}
	}
	for range l.Follow(ctx, task, 0) {
		t.Error("yielded with an ended context")
	}
	wantTopics(t, l, 0)
}

func TestFollowRefuses(t *testing.T) {
	l := newLog(t)
	for _, test := range []struct {
		s     api.Stream
		after int64
	}{{api.Stream{}, 0}, {task, -1}} {
		n := 0
		for _, err := range l.Follow(t.Context(), test.s, test.after) {
			n++
			if api.KindOf(err) != api.KindInvalid {
				t.Errorf("%v: %v", test, err)
			}
		}
		if n != 1 {
			t.Errorf("%v: yielded %d times", test, n)
		}
	}
}

func TestClose(t *testing.T) {
	l := newLog(t)
	appendN(t, l, task, 1)
	waiting := follow(t, t.Context(), l, task, 0)
	behind := follow(t, t.Context(), l, task, 0)
	wantNext(t, waiting, 1, 1)
	appendN(t, l, task, 2*pageEvents)
	l.Close()
	l.Close()
	wantNext(t, waiting, 2, 2*pageEvents+1)
	wantNext(t, behind, 1, 2*pageEvents+1)
	for _, got := range []<-chan int64{waiting, behind, follow(t, t.Context(), l, task, 2*pageEvents+1)} {
		if seq, ok := <-got; ok {
			t.Errorf("number %d after the end", seq)
		}
	}
	if _, err := l.Append(t.Context(), task, "x", nil); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("append after Close: %v", err)
	}
}

// memory is a store that counts reads and can be told to fail or to skip.
type memory struct {
	mu     sync.Mutex
	events []api.Event
	reads  int
	err    error
	hole   int64
}

func (m *memory) AppendEvent(_ context.Context, s api.Stream, t api.EventType, at time.Time, data json.RawMessage) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, api.Event{Stream: s, Seq: int64(len(m.events) + 1), At: at, Type: t, Data: data})
	return int64(len(m.events)), m.err
}

func (m *memory) ReadEvents(_ context.Context, _ api.Stream, after int64, limit int) (page []api.Event, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	for _, e := range m.events {
		if e.Seq > after && e.Seq != m.hole && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, m.err
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

// TestNoPolling: a follower that has seen everything reads nothing until there
// is something.
func TestNoPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		l := NewLog(Config{Store: m})
		var seen []int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for e := range l.Follow(t.Context(), task, 0) {
				seen = append(seen, e.Seq)
			}
		})
		synctest.Wait()
		before := m.count()
		time.Sleep(time.Hour) // of the bubble's clock
		appendN(t, l, other, 10)
		synctest.Wait()
		if n := m.count(); n != before {
			t.Errorf("%d reads while nothing happened", n-before)
		}
		m.events = nil // the store above does not tell streams apart
		appendN(t, l, task, 1)
		synctest.Wait()
		if n := m.count(); n != before+1 {
			t.Errorf("%d reads for one event", n-before)
		}
		l.Close()
		wg.Wait()
		if len(seen) != 1 {
			t.Errorf("saw %v", seen)
		}
	})
}

func TestBrokenStore(t *testing.T) {
	lost := api.Errorf(api.KindUnavailable, "the disk is gone")
	for name, m := range map[string]*memory{"fails": {err: lost}, "hole": {hole: 2}} {
		l := NewLog(Config{Store: m})
		for range 3 {
			if _, err := l.Append(t.Context(), task, "x", nil); !errors.Is(err, m.err) {
				t.Errorf("%s: append: %v", name, err)
			}
		}
		var last error
		n := 0
		for _, err := range l.Follow(t.Context(), task, 0) {
			if last != nil {
				t.Errorf("%s: it goes on after %v", name, last)
			}
			last = err
			n++
		}
		if name == "fails" && (n != 1 || last != error(lost)) || name == "hole" && (n != 2 || api.KindOf(last) != api.KindInternal) {
			t.Errorf("%s: %d yields, the last with %v", name, n, last)
		}
		wantTopics(t, l, 0)
	}
}

// BenchmarkFollow measures from the call of Append to the follower's loop.
func BenchmarkFollow(b *testing.B) {
	l := newLog(b)
	ctx, cancel := context.WithCancel(b.Context())
	got, done := make(chan int64, 1), make(chan struct{})
	go func() {
		defer close(done)
		for e := range l.Follow(ctx, task, 0) {
			got <- e.Seq
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		appendN(b, l, task, 1)
		<-got
	}
	cancel()
	<-done
}
