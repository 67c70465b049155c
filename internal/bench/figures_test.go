package bench

import (
	"errors"
	"testing"
	"time"

	"hortus.dev/api/admin"
)

func times(ms ...int) []time.Duration {
	var out []time.Duration
	for _, n := range ms {
		out = append(out, time.Duration(n)*time.Millisecond)
	}
	return out
}

func upTo(n int) []time.Duration {
	var out []time.Duration
	for i := range n {
		out = append(out, time.Duration(i+1)*time.Millisecond)
	}
	return out
}

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		name  string
		times []time.Duration
		q     float64
		want  int // ms
	}{
		{"of nothing", nil, 0.5, 0},
		{"of one", times(7), 0.99, 7},
		{"the least", times(1, 2, 3), 0, 1},
		{"the most", times(1, 2, 3), 1, 3},
		{"the middle of three", times(1, 2, 3), 0.5, 2},
		{"the lower middle of four", times(1, 2, 3, 4), 0.5, 2},
		{"half of a hundred", upTo(100), 0.5, 50},
		{"99 of a hundred", upTo(100), 0.99, 99},
		{"99 of a thousand", upTo(1000), 0.99, 990},
		{"99 of ten is the last", upTo(10), 0.99, 10},
	} {
		if got := quantile(test.times, test.q); got != time.Duration(test.want)*time.Millisecond {
			t.Errorf("%s: %v, want %d ms", test.name, got, test.want)
		}
	}
}

func TestMedianLeavesTheOrder(t *testing.T) {
	in := times(3, 1, 2)
	if got := median(in); got != 2*time.Millisecond || in[0] != 3*time.Millisecond {
		t.Errorf("median %v of what is now %v", got, in)
	}
}

func TestFillAndCompare(t *testing.T) {
	row := admin.BenchRow{Baseline: "other"}
	fill(&row, times(30, 10, 20))
	compare(&row, 8)
	if row.N != 3 || row.P50MS != 20 || row.P99MS != 30 || row.Ratio != 2.5 || row.BaselineP50MS != 8 {
		t.Errorf("%+v", row)
	}
	alone := admin.BenchRow{}
	fill(&alone, times(1))
	compare(&alone, 8)
	if alone.Ratio != 0 || alone.BaselineP50MS != 0 {
		t.Errorf("a row without a baseline was compared: %+v", alone)
	}
	none := admin.BenchRow{Baseline: "not measured"}
	compare(&none, 0)
	if none.Ratio != 0 {
		t.Errorf("compared with nothing: %+v", none)
	}
}

func TestGroups(t *testing.T) {
	const text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t5\t1\ncpuacct\t2\t5\t1\nmemory\t3\t7\t1\nhugetlb\t0\t1\t0\n"
	if got := groups(text); got != 13 {
		t.Errorf("%d groups, want 13: hierarchy 2 counts once", got)
	}
}

func TestHalves(t *testing.T) {
	at := func(v float64) count { return count{Counter: Counter{Note: "note"}, value: v} }
	for _, test := range []struct {
		before, middle, after float64
		want                  string
	}{
		{5, 5, 5, "note"},
		{20, 24.5, 24.501, "first half +4.50, second half +0.00; note"},
		{3, 3, 2, "first half +0.00, second half -1.00; note"},
	} {
		if got := halves(at(test.before), at(test.middle), at(test.after)); got != test.want {
			t.Errorf("%v: %q, want %q", test, got, test.want)
		}
	}
}

func TestCensus(t *testing.T) {
	no := errors.New("no")
	b := &Bench{Counters: []Counter{
		{Name: "silent", Count: func(ctxt) (float64, error) { return 0, no }},
		{Name: "answers", Count: func(ctxt) (float64, error) { return 42, nil }},
	}}
	all, err := b.census(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(own)+2 || all[len(own)].err != no || all[len(all)-1].value != 42 {
		t.Errorf("%d counts, the last %+v", len(all), all[len(all)-1])
	}
	for _, c := range all {
		if c.err != nil {
			t.Logf("%s: %v", c.Name, c.err)
		} else if c.value <= 0 && c.Name != "processes below it" {
			t.Errorf("%s: %v", c.Name, c.value)
		}
	}
}
