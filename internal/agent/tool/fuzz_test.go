package tool

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"command":"x"}`, `{"command":"x","timeout_seconds":"5","env":{"a":"b"},"background":"true"}`,
		`{"command":1}`, `[]`, `null`, `{"command":"x"}{}`, `{"command":"x","x":[[[[`, "\xff"} {
		f.Add([]byte(s))
	}
	s := New(Config{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, x := range s.All() {
			x := x.(*tool)
			a, why := x.input.decode(raw)
			if (a == nil) == (why == "") {
				t.Fatalf("%s: %v and %q", x.name, a, why)
			}
			if why != "" {
				continue
			}
			if !json.Valid(raw) {
				t.Fatalf("%q was taken", raw)
			}
			for _, field := range x.input {
				v, ok := a[field.name]
				if field.need && !ok {
					t.Fatalf("%s without %s", x.name, field.name)
				}
				if n, isNum := v.(int64); isNum && field.max != 0 && (n < field.min || n > field.max) {
					t.Fatalf("%s: %s is %d", x.name, field.name, n)
				}
			}
		}
	})
}

// FuzzCapture prints anything in pieces of any length: what is shown is clean and
// bounded, and does not depend on the pieces.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\r\nc\rd\b\be\x1b]0;t\x07\xff\xc3"), 3, 1)
	f.Add([]byte("\x1b]never ends\nshown"), 1, 1)
	f.Add([]byte("ä\u0085\u200b"), 2, 3000)
	f.Fuzz(func(t *testing.T, p []byte, piece, times int) {
		piece, times = max(piece, 1), min(max(times, 1), 4000)
		if len(p) > 1000 {
			return
		}
		all := bytes.Repeat(p, times)
		one, many := newCapture(nil), newCapture(nil)
		one.Write(all)
		for rest := all; len(rest) > 0; {
			n := min(piece, len(rest))
			many.Write(rest[:n])
			rest = rest[n:]
		}
		a, b := one.end(), many.end()
		if a != b {
			t.Fatalf("%.200q and %.200q", a, b)
		}
		if !utf8.ValidString(a) || utf8.RuneCountInString(a) > maxText+200 || one.raw != int64(len(all)) {
			t.Fatalf("%d characters: %.200q", utf8.RuneCountInString(a), a)
		}
		for _, r := range a {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q in %.200q", r, a)
			}
		}
	})
}

func FuzzNear(f *testing.F) {
	f.Add("def a():\n    return 1\n", "def a():\n\treturn 1")
	f.Add("", "\n")
	f.Add("a\r\nb", "b\x00")
	f.Fuzz(func(t *testing.T, text, old string) {
		got := near(text, old)
		if got == "" || !utf8.ValidString(got) || len(got) > 3*maxText || strings.ContainsAny(got, "\x00\x1b\r") {
			t.Fatalf("%q", got)
		}
	})
}

func FuzzOutlines(f *testing.F) {
	f.Add("class A {\n  m() {\n  }\n}\nconst f = () => {\n")
	f.Add("def f():\n  class A:\n")
	f.Add("package a\nfunc (x *T[A]) m() {\n")
	f.Add("`${`'\"/*")
	f.Fuzz(func(t *testing.T, text string) {
		goes, _ := outlineGo(text)
		for _, all := range [][]symbol{outlineJS(text), outlineLines(text), goes} {
			n := len(lines(text)) + 1
			for _, y := range all {
				if y.line < 1 || y.line > n || y.depth < 0 || y.depth > n {
					t.Fatalf("%+v of %d lines", y, n)
				}
			}
		}
	})
}

func FuzzChecks(f *testing.F) {
	f.Add("package a\n")
	f.Add("{\"a\": [1,]}")
	f.Add("a: &x [*x, *x]\n---\n- b: {")
	f.Add("%YAML 1.1\n--- !!binary x\n? a\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, check := range []func(string, string) (*problem, string){checkGo, checkJSON, checkYAML} {
			if p, _ := check("x", text); p != nil && (p.line < 0 || p.column < 0 || p.line > strings.Count(text, "\n")+2 || p.text == "") {
				t.Fatalf("%+v", p)
			}
		}
		if p, _ := checkJSON("", text); (p == nil) != json.Valid([]byte(text)) {
			t.Fatalf("%+v, and encoding/json says otherwise", p)
		}
	})
}

func FuzzMatches(f *testing.F) {
	f.Add([]byte("a.py\x001:x\nb\nc\x002\x00y\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, l := range matches(out, where{abs: "/workspace", arg: ".", say: "."}) {
			if strings.ContainsAny(l, "\n\x1b\x00") || !utf8.ValidString(l) {
				t.Fatalf("%q", l)
			}
		}
	})
}
