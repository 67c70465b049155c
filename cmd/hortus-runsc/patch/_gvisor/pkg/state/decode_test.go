package state

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"testing"

	"gvisor.dev/gvisor/pkg/state/wire"
)

// leaf is a struct inside others, to which pointers lead as well.
type leaf struct{ value int64 }

func (*leaf) StateTypeName() string                       { return "state_test.leaf" }
func (*leaf) StateFields() []string                       { return []string{"value"} }
func (l *leaf) StateSave(s Sink)                          { s.Save(0, &l.value) }
func (l *leaf) StateLoad(ctx context.Context, src Source) { src.Load(0, &l.value) }

// node is an object of a graph.
type node struct {
	id     int64
	name   string
	next   []*node
	byName map[string]*node
	inner  [9]leaf
	within *leaf // of another node
	any    any
	data   []byte
	loaded int // what afterLoad has counted
}

func (*node) StateTypeName() string { return "state_test.node" }
func (*node) StateFields() []string {
	return []string{"id", "name", "next", "byName", "inner", "within", "any", "data"}
}

func (n *node) fields() []any {
	return []any{&n.id, &n.name, &n.next, &n.byName, &n.inner, &n.within, &n.any, &n.data}
}

func (n *node) StateSave(s Sink) {
	for i, f := range n.fields() {
		s.Save(i, f)
	}
}

func (n *node) StateLoad(ctx context.Context, src Source) {
	for i, f := range n.fields() {
		src.Load(i, f)
	}
	src.AfterLoad(func() { n.loaded += len(n.data) })
}

// nodes is the root.
type nodes struct{ all []*node }

func (*nodes) StateTypeName() string                       { return "state_test.nodes" }
func (*nodes) StateFields() []string                       { return []string{"all"} }
func (n *nodes) StateSave(s Sink)                          { s.Save(0, &n.all) }
func (n *nodes) StateLoad(ctx context.Context, src Source) { src.Load(0, &n.all) }

func init() {
	Register((*leaf)(nil))
	Register((*node)(nil))
	Register((*nodes)(nil))
}

// graph makes count nodes that refer to each other at random.
func graph(seed int64, count int) *nodes {
	r := rand.New(rand.NewSource(seed))
	g := &nodes{all: make([]*node, count)}
	for i := range g.all {
		g.all[i] = &node{id: int64(i), name: fmt.Sprint("node ", i)}
	}
	other := func() *node { return g.all[r.Intn(count)] }
	for _, n := range g.all {
		for range r.Intn(4) {
			n.next = append(n.next, other())
		}
		if r.Intn(3) == 0 {
			n.byName = map[string]*node{"self": n, "other": other()}
		}
		for i := range n.inner {
			n.inner[i].value = r.Int63()
		}
		switch r.Intn(4) {
		case 0:
			n.any = other()
		case 1:
			n.any = leaf{value: r.Int63()}
		case 2:
			n.any = "text"
		}
		if r.Intn(2) == 0 {
			n.within = &other().inner[r.Intn(len(n.inner))]
		}
		n.data = make([]byte, r.Intn(300))
		r.Read(n.data)
	}
	return g
}

// same reports a difference of two graphs, also in what is one object and what are two.
func same(want, got *nodes) error {
	if len(want.all) != len(got.all) {
		return fmt.Errorf("%d nodes, want %d", len(got.all), len(want.all))
	}
	where := map[*leaf][2]int{} // of the pointers into a node
	to := map[*node]*node{nil: nil}
	for i, n := range want.all {
		to[n] = got.all[i]
		for j := range n.inner {
			where[&n.inner[j]] = [2]int{i, j}
		}
	}
	for i, w := range want.all {
		g := got.all[i]
		bad := w.id != g.id || w.name != g.name || w.inner != g.inner || !bytes.Equal(w.data, g.data) ||
			g.loaded != len(w.data) || len(w.next) != len(g.next) || len(w.byName) != len(g.byName)
		for j := 0; !bad && j < len(w.next); j++ {
			bad = to[w.next[j]] != g.next[j]
		}
		for name, n := range w.byName {
			bad = bad || to[n] != g.byName[name]
		}
		if n, ok := w.any.(*node); ok {
			bad = bad || g.any != any(to[n])
		} else {
			bad = bad || !reflect.DeepEqual(w.any, g.any)
		}
		if w.within != nil {
			at := where[w.within]
			bad = bad || g.within != &got.all[at[0]].inner[at[1]]
		}
		if bad {
			return fmt.Errorf("node %d is %+v, want %+v", i, g, w)
		}
	}
	return nil
}

// TestGraphs: what is loaded is what was saved, although a decoder uses the memory of its objects again, from
// readers with and without single bytes, also if objects come before those that refer to them.
func TestGraphs(t *testing.T) {
	for seed := range int64(20) {
		want := graph(seed, 1+int(seed)*53)
		var b bytes.Buffer
		if _, err := Save(context.Background(), &b, want); err != nil {
			t.Fatal(err)
		}
		mixed := shuffled(t, b.Bytes(), seed)
		for name, r := range map[string]io.Reader{
			"bytes":       bytes.NewReader(b.Bytes()),
			"no bytes":    struct{ io.Reader }{bytes.NewReader(b.Bytes())},
			"mixed order": bytes.NewReader(mixed),
		} {
			var got nodes
			if _, err := Load(context.Background(), r, &got); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			if err := same(want, &got); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
		}
	}
}

// shuffled is a stream with the same objects in a random order.
func shuffled(t *testing.T, stream []byte, seed int64) []byte {
	t.Helper()
	r := &wire.Reader{Reader: bytes.NewReader(stream)}
	count, _, err := ReadHeader(r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := &wire.Writer{Writer: &b}
	if err := WriteHeader(w, count, true); err != nil {
		t.Fatal(err)
	}
	var objects [][2]wire.Object
	for uint64(len(objects)) < count {
		switch x := wire.Load(r).(type) {
		case *wire.Type:
			wire.Save(w, x)
		case wire.Uint:
			objects = append(objects, [2]wire.Object{x, wire.Load(r)})
		}
	}
	rand.New(rand.NewSource(seed)).Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	for _, o := range objects {
		wire.Save(w, o[0])
		wire.Save(w, o[1])
	}
	return b.Bytes()
}
