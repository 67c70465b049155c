package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/placement"
)

const gib = 1 << 30

var at = time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)

// still leaves the order of nodes as it is.
func still(int, func(i, j int)) {}

func node(name string, free int64, change ...func(*placement.Node)) placement.Node {
	n := placement.Node{ID: api.NodeID(name), At: at, MemoryBudget: 64 * gib, MemoryPromised: 64*gib - free, CPUs: 8}
	for _, f := range change {
		f(&n)
	}
	return n
}

func names(nodes []placement.Node) string {
	var out []string
	for _, n := range nodes {
		out = append(out, string(n.ID))
	}
	return strings.Join(out, " ")
}

func TestOrder(t *testing.T) {
	load := func(l float64) func(*placement.Node) { return func(n *placement.Node) { n.Load = l } }
	has := func(templates ...string) func(*placement.Node) {
		return func(n *placement.Node) { n.Templates = templates }
	}
	isolations := func(all ...string) func(*placement.Node) {
		return func(n *placement.Node) { n.Isolations = all }
	}
	full := func(n *placement.Node) { n.Full = true }
	waiting := func(c int) func(*placement.Node) { return func(n *placement.Node) { n.Waiting = c } }
	for name, tt := range map[string]struct {
		nodes []placement.Node
		need  placement.Need
		want  string
	}{
		"none":                     {nil, placement.Need{}, ""},
		"free memory":              {[]placement.Node{node("a", gib), node("b", 40*gib), node("c", 20*gib)}, placement.Need{}, "b c a"},
		"processors, if alike":     {[]placement.Node{node("a", 43*gib, load(7)), node("b", 40*gib, load(1))}, placement.Need{}, "b a"},
		"waits, if alike":          {[]placement.Node{node("a", 40*gib, waiting(3)), node("b", 40*gib)}, placement.Need{}, "b a"},
		"the best of three":        {[]placement.Node{node("a", gib), node("b", 10*gib), node("c", 20*gib), node("d", 60*gib)}, placement.Need{}, "c b a d"},
		"the template before all":  {[]placement.Node{node("a", 60*gib), node("b", 60*gib), node("c", 60*gib), node("d", gib, has("python"))}, placement.Need{Template: "python"}, "d a b c"},
		"a template that is none":  {[]placement.Node{node("a", gib, has("go")), node("b", 60*gib)}, placement.Need{Template: "python"}, "b a"},
		"the isolation before all": {[]placement.Node{node("a", 60*gib, isolations("container")), node("b", gib, isolations("container", "gvisor"))}, placement.Need{Isolation: "gvisor"}, "b a"},
		"an isolation not told":    {[]placement.Node{node("a", 60*gib), node("b", gib, isolations("gvisor"))}, placement.Need{Isolation: "gvisor"}, "a b"},
		"what can ever hold it":    {[]placement.Node{node("a", 60*gib), node("b", gib, func(n *placement.Node) { n.MemoryBudget *= 4 })}, placement.Need{Memory: 100 * gib}, "b a"},
		"a full disk after all":    {[]placement.Node{node("a", 60*gib, func(n *placement.Node) { n.DiskFull = true }), node("b", 60*gib), node("c", 60*gib), node("d", gib)}, placement.Need{}, "b c d a"},
		"a full node last":         {[]placement.Node{node("a", 60*gib, full), node("b", gib), node("c", 60*gib, full, has("python")), node("d", gib)}, placement.Need{Template: "python"}, "b d c a"},
		"all are full":             {[]placement.Node{node("a", gib, full), node("b", 60*gib, full)}, placement.Need{}, "b a"},
		"without figures":          {[]placement.Node{{ID: "a"}, {ID: "b"}}, placement.Need{}, "a b"},
	} {
		if got := names(placement.New(still).Order(tt.nodes, tt.need)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestPlacedCounts: what was placed counts until a node has new figures.
func TestPlacedCounts(t *testing.T) {
	p := placement.New(still)
	nodes := []placement.Node{node("a", 60*gib), node("b", 60*gib)}
	count := map[string]int{}
	for range 20 {
		count[string(p.Place(nodes, placement.Need{Memory: 2 * gib})[0].ID)]++
		p.Order(nodes, placement.Need{Memory: 8 * gib}) // places nothing
	}
	if count["a"] != 10 || count["b"] != 10 {
		t.Errorf("%v", count)
	}
	nodes[0].At = at.Add(time.Second)
	if got := names(p.Place(nodes, placement.Need{Memory: 2 * gib})); got != "a b" {
		t.Errorf("after new figures of a: %q", got)
	}
	if nodes[0].ID != "a" || !slices.IsSortedFunc(nodes, func(x, y placement.Node) int { return strings.Compare(string(x.ID), string(y.ID)) }) {
		t.Error("the caller's list was changed")
	}
}

// TestSpread: with old figures no node of twenty gets much more than its part.
func TestSpread(t *testing.T) {
	var nodes []placement.Node
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprint("n", i), 32*gib+int64(i)*gib))
	}
	count := map[api.NodeID]int{}
	for range 2000 { // by doors that do not know of each other
		count[placement.New(nil).Place(nodes, placement.Need{})[0].ID]++
	}
	for id, n := range count {
		if n > 600 { // the best node alone would get 2000, a fair part is 100
			t.Errorf("%s got %d of 2000", id, n)
		}
	}
}
