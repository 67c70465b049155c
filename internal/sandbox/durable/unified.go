package durable

import (
	"fmt"
	"strings"
)

const (
	// contextLines is the number of unchanged lines around a change.
	contextLines = 3
	// maxEdits is the maximum number of added and removed lines that are looked for. The memory
	// for a comparison grows with its square.
	maxEdits = 2000
)

// edit is a line of a comparison: ' ', '-' or '+'.
type edit struct {
	op   byte
	line string
}

// unified returns the hunks of a unified diff, without a header; why says why there are none.
func unified(before, after []byte) (text, why string) {
	a, b := lines(before), lines(after)
	edits, ok := compare(a, b)
	if !ok {
		return "", fmt.Sprintf("more than %d lines differ", maxEdits)
	}
	var out strings.Builder
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i++
			continue
		}
		// A hunk ends where more than twice the context is unchanged.
		from, to, same := max(i-contextLines, 0), i, 0
		for j := i; j < len(edits) && same <= 2*contextLines; j++ {
			if same++; edits[j].op != ' ' {
				to, same = j+1, 0
			}
		}
		hunk(&out, edits, from, min(to+contextLines, len(edits)))
		i = to
	}
	return out.String(), ""
}

// hunk writes the edits from one index to another.
func hunk(out *strings.Builder, edits []edit, from, to int) {
	// The numbers of the first lines.
	a, b := 1, 1
	for _, e := range edits[:from] {
		if e.op != '+' {
			a++
		}
		if e.op != '-' {
			b++
		}
	}
	na, nb := 0, 0
	for _, e := range edits[from:to] {
		if e.op != '+' {
			na++
		}
		if e.op != '-' {
			nb++
		}
	}
	// By convention an empty side begins before its line.
	if na == 0 {
		a--
	}
	if nb == 0 {
		b--
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", a, na, b, nb)
	for _, e := range edits[from:to] {
		out.WriteByte(e.op)
		out.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lines splits a text after each line end.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	all := strings.SplitAfter(string(b), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// compare finds a shortest list of edits that makes b of a, by the algorithm of Myers. It
// gives up at maxEdits.
func compare(a, b []string) ([]edit, bool) {
	// What both begin and end with needs no search.
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []edit
	for _, l := range a[:head] {
		out = append(out, edit{' ', l})
	}
	middle, ok := search(a[head:len(a)-tail], b[head:len(b)-tail])
	if !ok {
		return nil, false
	}
	out = append(out, middle...)
	for _, l := range a[len(a)-tail:] {
		out = append(out, edit{' ', l})
	}
	return out, true
}

func search(a, b []string) ([]edit, bool) {
	n, m := len(a), len(b)
	if n == 0 || m == 0 { // of any length
		var out []edit
		for _, l := range a {
			out = append(out, edit{'-', l})
		}
		for _, l := range b {
			out = append(out, edit{'+', l})
		}
		return out, true
	}
	most := min(n+m, maxEdits)
	v := make([]int, 2*most+2) // the furthest x on each diagonal
	var trace [][]int
	for d := 0; d <= most; d++ {
		trace = append(trace, append([]int(nil), v[most-d:most+d+1]...))
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case k == -d || k != d && v[most+k-1] < v[most+k+1]:
				x = v[most+k+1]
			default:
				x = v[most+k-1] + 1
			}
			y := x - k
			for x < n && y < m && a[x] == b[y] {
				x, y = x+1, y+1
			}
			v[most+k] = x
			if x >= n && y >= m {
				return walkBack(a, b, trace, d), true
			}
		}
	}
	return nil, false
}

// walkBack follows the trace of a search from its end. trace[d] has the diagonals -d to d as
// they were before step d.
func walkBack(a, b []string, trace [][]int, d int) []edit {
	var out []edit
	x, y := len(a), len(b)
	for ; d > 0; d-- {
		at := func(k int) int { return trace[d][k+d] }
		k := x - y
		prev := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			prev = k + 1
		}
		px := at(prev)
		py := px - prev
		for x > px && y > py {
			x, y = x-1, y-1
			out = append(out, edit{' ', a[x]})
		}
		if prev == k+1 {
			y--
			out = append(out, edit{'+', b[y]})
		} else {
			x--
			out = append(out, edit{'-', a[x]})
		}
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		out = append(out, edit{' ', a[x]})
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}
