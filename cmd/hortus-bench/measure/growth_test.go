package measure

import (
	"context"
	"errors"
	"testing"
)

func TestGroups(t *testing.T) {
	const text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t5\t1\ncpuacct\t2\t5\t1\nmemory\t3\t7\t1\nhugetlb\t0\t1\t0\n"
	if got := groups(text); got != 13 {
		t.Errorf("%d groups, want 13: hierarchy 2 counts once", got)
	}
}

func TestHalves(t *testing.T) {
	at := func(v float64) count { return count{counter: counter{Note: "note"}, value: v} }
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
	b := &Bench{counters: []counter{
		{Name: "silent", Count: func(context.Context) (float64, error) { return 0, no }},
		{Name: "answers", Count: func(context.Context) (float64, error) { return 42, nil }},
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
