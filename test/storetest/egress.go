package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// newDecision is a valid decision that change has changed.
func newDecision(change func(*api.EgressDecision)) api.EgressDecision {
	d := api.EgressDecision{At: began, Sandbox: "i1", Op: "connect", Result: api.EgressDenied, Host: "example.org", Port: 443}
	if change != nil {
		change(&d)
	}
	return d
}

func insertEgress(t *testing.T, s store.Store, all ...api.EgressDecision) []api.EgressDecision {
	t.Helper()
	must(t, s.InsertEgress(t.Context(), all))
	return all
}

// egress lists all decisions that a filter selects.
func egress(t *testing.T, s store.Store, account string, f api.EgressFilter) []api.EgressDecision {
	t.Helper()
	return rows(t, func(p api.PageRequest) ([]api.EgressDecision, string, error) {
		return s.EgressPage(t.Context(), account, f, p)
	})
}

func testEgress(t *testing.T, s store.Store) {
	ctx := t.Context()
	must(t, s.InsertEgress(ctx, nil))
	var full api.EgressDecision
	fill(&full)
	full.Result = api.EgressFailed
	least := newDecision(nil)
	want := insertEgress(t, s, full, least)
	if want[0].Seq < 1 || want[1].Seq <= want[0].Seq {
		t.Errorf("the numbers are %d and %d", want[0].Seq, want[1].Seq)
	}
	want = append(want, insertEgress(t, s, least)...)
	slices.Reverse(want)
	if diff := cmp.Diff(want, egress(t, s, "", api.EgressFilter{})); diff != "" || want[0].Seq <= want[1].Seq {
		t.Error(diff)
	}
	// One invalid decision, and none is stored.
	for _, bad := range []func(*api.EgressDecision){
		func(d *api.EgressDecision) { d.Sandbox = "" },
		func(d *api.EgressDecision) { d.Op = "" },
		func(d *api.EgressDecision) { d.At = time.Time{} },
		func(d *api.EgressDecision) { d.Result = "maybe" },
	} {
		wantKind(t, s.InsertEgress(ctx, []api.EgressDecision{least, newDecision(bad)}), api.KindInvalid)
	}
	if got := egress(t, s, "", api.EgressFilter{}); len(got) != 3 {
		t.Errorf("%d decisions after invalid ones", len(got))
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	wantKind(t, s.InsertEgress(canceled, []api.EgressDecision{least}), api.KindCanceled)
}

func testEgressFilter(t *testing.T, s store.Store) {
	minute := func(i int) time.Time { return began.Add(time.Duration(i) * time.Minute) }
	for i, d := range []api.EgressDecision{
		{Sandbox: "i1", Result: api.EgressAllowed, Host: "example.org"},
		{Sandbox: "i1", Result: api.EgressDenied, Host: "a.example.org", Account: "a", Task: "t1"},
		{Sandbox: "i2", Result: api.EgressDenied, Host: "b.a.example.org", Account: "a", Task: "t1"},
		{Sandbox: "i3", Result: api.EgressFailed, Host: "notexample.org", Account: "b", Task: "t2"},
		{Sandbox: "i3", Result: api.EgressWaiting, Host: "x_y.example.com", Account: "b"},
		{Sandbox: "i3", Result: api.EgressDropped, Host: "xzy.example.com", Account: "b"},
	} {
		d.At, d.Op, d.Port = minute(i), "connect", i
		insertEgress(t, s, d)
	}
	for _, c := range []struct {
		account string
		f       api.EgressFilter
		want    string // ports, newest first
	}{
		{"", api.EgressFilter{}, "543210"},
		{"a", api.EgressFilter{}, "21"},
		{"nobody", api.EgressFilter{}, ""},
		{"", api.EgressFilter{Sandbox: "i1"}, "10"},
		{"b", api.EgressFilter{Sandbox: "i1"}, ""},
		{"", api.EgressFilter{Result: api.EgressDenied}, "21"},
		{"", api.EgressFilter{Host: "example.org"}, "0"},
		{"", api.EgressFilter{Host: "*.example.org"}, "21"},
		{"", api.EgressFilter{Host: "*_y.example.com"}, "4"},
		{"", api.EgressFilter{Host: "*%"}, ""},
		{"", api.EgressFilter{Since: minute(2)}, "5432"},
		{"a", api.EgressFilter{Sandbox: "i2", Result: api.EgressDenied, Host: "*.org", Since: minute(1)}, "2"},
	} {
		var got strings.Builder
		for _, d := range egress(t, s, c.account, c.f) {
			fmt.Fprint(&got, d.Port)
		}
		if got.String() != c.want {
			t.Errorf("%q, %+v: %q, want %q", c.account, c.f, got.String(), c.want)
		}
	}
}

func testEgressPages(t *testing.T, s store.Store) {
	ctx := t.Context()
	// More than a page, all of one instant, some of a size that ends a page.
	var all []api.EgressDecision
	for i := range 1203 {
		all = append(all, newDecision(func(d *api.EgressDecision) {
			d.Port, d.Account = i, []string{"", "a"}[i%2]
			if i < 10 {
				d.Path = strings.Repeat("x", store.MaxPageBytes/3)
			}
		}))
	}
	insertEgress(t, s, all...)
	numbers := func(all []api.EgressDecision) (n []int64) {
		for _, d := range all {
			n = append(n, d.Seq)
		}
		return n
	}
	slices.Reverse(all)
	for _, limit := range []int{7, 400, 401, api.MaxPage} {
		got, pages := walk(t, limit, func(p api.PageRequest) ([]api.EgressDecision, string, error) {
			return s.EgressPage(ctx, "", api.EgressFilter{}, p)
		})
		if !slices.Equal(numbers(got), numbers(all)) {
			t.Errorf("pages of %d have %d decisions of %d", limit, len(got), len(all))
		}
		if limit == api.MaxPage && pages < 4 {
			t.Errorf("%d pages for %d bytes", pages, 10*store.MaxPageBytes/3)
		}
	}
	for _, p := range []api.PageRequest{{Limit: -1}, {Cursor: store.Cursor{At: began, ID: string(api.NewSandboxID())}.Token()}} {
		_, _, err := s.EgressPage(ctx, "", api.EgressFilter{}, p)
		wantKind(t, err, api.KindInvalid)
	}
}

func testPruneEgress(t *testing.T, s store.Store) {
	ctx := t.Context()
	minute := func(i int) time.Time { return began.Add(time.Duration(i) * time.Minute) }
	var flood, other []api.EgressDecision
	for i := range 2500 { // more than one transaction removes
		flood = append(flood, newDecision(func(d *api.EgressDecision) { d.Account, d.At = "flood", minute(100+i) }))
	}
	for i := range 20 {
		other = append(other, newDecision(func(d *api.EgressDecision) {
			d.Account, d.At = []string{"", "b"}[i%2], minute(i)
			if i == 15 {
				d.At = began.Add(-time.Hour) // the clock was wrong
			}
		}))
	}
	insertEgress(t, s, flood...)
	last := insertEgress(t, s, other...)[19].Seq
	const much = 1 << 40
	keep := store.Retention{Rows: 1, Execs: 1, Decisions: 10_000, Bytes: much}
	count := func(account string) int { return len(egress(t, s, account, api.EgressFilter{})) }
	for i, c := range []struct {
		change func()
		want   int
		left   [2]int // of flood and b
	}{
		{func() {}, 0, [2]int{2500, 10}},
		{func() { keep.Decisions = 12 }, 2488, [2]int{12, 10}},
		{func() { keep.Before = minute(5) }, 6, [2]int{12, 7}},
		{func() { keep.Decisions = 5 }, 11, [2]int{5, 5}},
		{func() { keep.Bytes = 600 }, 0, [2]int{}},
		{func() { keep.Bytes = 1 }, 0, [2]int{0, 0}},
	} {
		c.change()
		if i == 5 {
			c.want = count("")
		}
		done, err := s.Prune(ctx, keep)
		must(t, err)
		if left := [2]int{count("flood"), count("b")}; i != 4 && (left != c.left || done != (store.Pruned{Decisions: c.want})) {
			t.Errorf("%d: removed %+v, left %v; want %d, %v", i, done, left, c.want, c.left)
		} else if i == 4 && (left[0] == 0 || left[0] >= 5) { // of which size rows are is the store's choice
			t.Errorf("within 600 bytes are %v", left)
		}
		if got := egress(t, s, "b", api.EgressFilter{}); i == 3 && (len(got) != 5 || got[0].At != minute(19)) {
			t.Errorf("the newest were removed: %+v", got)
		}
	}
	// A number is not used again.
	if again := insertEgress(t, s, newDecision(nil)); again[0].Seq <= last {
		t.Errorf("number %d after %d", again[0].Seq, last)
	}
}
