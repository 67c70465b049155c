package figure

import (
	"testing"
	"time"
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

func TestTimes(t *testing.T) {
	in := times(30, 10, 20)
	row := Row{Baseline: "other"}
	row.Times(in, 8)
	if row.N != 3 || row.P50MS != 20 || row.P99MS != 30 || row.Ratio != 2.5 || row.BaselineP50MS != 8 {
		t.Errorf("%+v", row)
	}
	if got := Median(in); got != 20 || in[0] != 30*time.Millisecond {
		t.Errorf("median %v of what is now %v", got, in)
	}
	alone := Row{}
	alone.Times(times(1), 8)
	if alone.Ratio != 0 || alone.BaselineP50MS != 0 {
		t.Errorf("a row without a baseline was compared: %+v", alone)
	}
	none := Row{Baseline: "not measured"}
	none.Times(times(1), 0)
	if none.Ratio != 0 {
		t.Errorf("compared with nothing: %+v", none)
	}
}
