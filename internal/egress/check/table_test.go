package check

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/security-claims.md")

const (
	document   = "../../../docs/security-claims.md"
	tableBegin = "| attack | what it tries | what must hold | again |\n|---|---|---|---|\n"
)

// TestDocument compares the table of docs/security-claims.md with the attacks; -update writes it.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	if !ok {
		t.Fatalf("%s has no table of attacks", document)
	}
	end := strings.Index(rest, "\n\n") + 1
	var want strings.Builder
	for _, a := range Attacks() {
		again := ""
		if a.Again {
			again = "yes"
		}
		fmt.Fprintf(&want, "| `%s` | %s: %s | %s | %s |\n", a.ID, a.Title, a.Tries, a.Holds, again)
	}
	if *update {
		if err := os.WriteFile(document, []byte(before+tableBegin+want.String()+rest[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if rest[:end] != want.String() {
		t.Errorf("the table of %s is not that of the attacks: go test ./internal/egress/check -run TestDocument -update", document)
	}
}

// TestTable checks that every attack is complete.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Attacks() {
		if a.ID == "" || a.Title == "" || a.Tries == "" || a.Holds == "" || a.attack == nil || a.control == nil {
			t.Errorf("%q is incomplete", a.ID)
		}
		if seen[a.ID] {
			t.Errorf("%s is there twice", a.ID)
		}
		seen[a.ID] = true
		if strings.ContainsAny(a.Title+a.Tries+a.Holds, "|\n") {
			t.Errorf("%s does not fit into a table", a.ID)
		}
	}
}

// TestLeak knows a refusal of the wall from an answer of a server.
func TestLeak(t *testing.T) {
	for name, c := range map[string]struct {
		a    answer
		leak bool
	}{
		"denied":                {answer{status: 403, egress: "denied"}, false},
		"tried":                 {answer{status: 502, egress: "failed"}, true},
		"a server":              {answer{status: 200, body: "reached x"}, true},
		"a server's error":      {answer{status: 404}, true},
		"malformed":             {answer{status: 400}, false},
		"no answer":             {answer{err: errRefused}, false},
		"a server's bad answer": {answer{status: 400, body: "reached x"}, true},
	} {
		if got := c.a.leak() != ""; got != c.leak {
			t.Errorf("%s: leak %v", name, got)
		}
	}
}

func FuzzParseDNS(f *testing.F) {
	q := dnsQuery("a.example.com", typeA)
	f.Add(append([]byte{0x12, 0x34, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, append(q[12:], 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 198, 18, 1, 0)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseDNS(b, q); err == nil && a.addr.IsValid() && !a.addr.Is4() {
			t.Errorf("address %v", a.addr)
		}
	})
}

// TestHeldOfReport: a row that was not tested is neither held nor broken, and a run with one does not pass.
func TestHeldOfReport(t *testing.T) {
	for _, c := range []struct {
		rows []Result
		want bool
	}{
		{[]Result{Held, NotApplicable}, true}, {[]Result{Held, NotTested}, false}, {[]Result{Held, Broken}, false}, {[]Result{NotApplicable}, false}, {nil, false},
	} {
		var r Report
		for _, one := range c.rows {
			r.Rows = append(r.Rows, Row{Result: one})
		}
		if r.Held() != c.want {
			t.Errorf("%v: held %v", c.rows, r.Held())
		}
	}
	// What does not start was not tested.
	var r runner
	r.skip(Forked, NotTested, "no memory")
	if len(r.report.Rows) == 0 || r.report.Rows[0].Result == Broken || r.report.Rows[0].Reason != "no memory" {
		t.Errorf("%+v", r.report.Rows)
	}
}
