package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const good = `=== RUN   TestA
=== RUN   TestA/one
=== RUN   TestA/two
    a_test.go:7: there is no such device here
--- PASS: TestA (0.01s)
    --- PASS: TestA/one (0.00s)
    --- SKIP: TestA/two (0.00s)
=== RUN   TestB
--- PASS: TestB (0.00s)
PASS
`

// What is no success must not look like one.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, out string
		must      []string
		exit      *exit
		wrong     string // a part of the one reason
	}{
		{"good", good, []string{"TestA/one", "TestB"}, &exit{}, ""},
		{"skipped what must pass", good, []string{"TestA/two"}, &exit{}, `TestA/two had to pass here: "skip"`},
		{"never ran what must pass", good, []string{"TestC"}, &exit{}, `TestC had to pass here: ""`},
		{"exit code", good, nil, &exit{Code: 2}, "exit code 2"},
		{"not started", good, nil, &exit{Why: "no such file"}, "no such file"},
		{"no end", good, nil, nil, "it did not end"},
		{"a failure", strings.ReplaceAll(good, "--- PASS: TestB", "--- FAIL: TestB"), nil, &exit{}, "TestB failed"},
		{"a skip without a reason", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\nPASS\n", nil, &exit{}, "without a reason"},
		{"cut short", strings.TrimSuffix(good, "PASS\n") + "=== RUN   TestC\n", nil, &exit{}, "TestC did not end"},
		{"nothing", "PASS\n", nil, &exit{}, "no test passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record{step: step{Must: c.must}, exit: c.exit}
			r.out.WriteString(c.out)
			o, err := r.judge(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.wrong == "" && len(o.wrong) > 0 || c.wrong != "" && (len(o.wrong) != 1 || !strings.Contains(o.wrong[0], c.wrong)) {
				t.Errorf("wrong is %q, want %q", o.wrong, c.wrong)
			}
			if c.name == "good" && (o.passed != 2 || o.skipped != 1 || o.failed != 0 || len(o.skips) != 1 || !strings.HasSuffix(o.skips[0], "no such device here")) {
				t.Errorf("counted %+v", o)
			}
		})
	}
}

func TestListen(t *testing.T) {
	steps := []step{{Name: "a"}, {Name: "b"}}
	records, err := listen(strings.NewReader(`{"Step":"a","Text":"x\n"}{"Step":"a","Exit":{"Code":3}}{"Step":"b","Exit":{}}{"Done":true}`), settings{}, steps)
	if err != nil || records[0].out.String() != "x\n" || records[0].exit.Code != 3 || records[1].exit == nil {
		t.Errorf("%+v, %v", records, err)
	}
	for _, bad := range []string{``, `{"Step":"a"}`, `{"Fail":"no disk"}`, `{"Step":"c","Text":"x"}{"Done":true}`, `{"Boot":{"V1":"memory"}}{"Done":true}`, `nonsense`} {
		if _, err := listen(strings.NewReader(bad), settings{}, steps); err == nil {
			t.Errorf("%q is a success", bad)
		}
	}
}

// The archive is read back by its own headers.
func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := &archive{w: &b}
	a.dir("d")
	a.file("d/f", []byte("hello"))
	a.device("d/console", 5, 1)
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for rest := b.Bytes(); len(rest) > 0; {
		number := func(i int) int {
			n, err := strconv.ParseUint(string(rest[6+8*i:14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		if string(rest[:6]) != "070701" {
			t.Fatalf("no header but %q", rest[:6])
		}
		size, nameSize := number(6), number(11)
		body := (110 + nameSize + 3) &^ 3
		name := string(rest[110 : 110+nameSize-1])
		if name == "d/f" && string(rest[body:body+size]) != "hello" || name == "d/console" && (number(9) != 5 || number(10) != 1) {
			t.Errorf("%s is not as it was written", name)
		}
		names, rest = append(names, name), rest[(body+size+3)&^3:]
	}
	if want := []string{"d", "d/f", "d/console", "TRAILER!!!"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	a = &archive{w: broken{}}
	a.dir("d")
	if err := a.close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a write that failed: %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestPlan(t *testing.T) {
	names := map[string]bool{}
	for _, s := range plan() {
		if names[s.Name] {
			t.Errorf("two steps are named %s", s.Name)
		}
		names[s.Name] = true
		if _, ok := places[s.Group]; ok == s.below() {
			t.Errorf("%s runs in %q", s.Name, s.Group)
		}
		if !exists("../../" + s.Package) {
			t.Errorf("%s: there is no package %s", s.Name, s.Package)
		}
	}
}
