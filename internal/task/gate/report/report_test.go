package report

import (
	"fmt"
	"strings"
	"testing"
)

func TestFor(t *testing.T) {
	for _, tt := range []struct{ command, runner, run string }{
		{"python3 -m unittest discover -s tests", "unittest", "python3 /g/runner.py unittest discover -s tests"},
		{"cd src && PYTHONPATH=lib python3 -B -m unittest", "unittest", "cd src && PYTHONPATH=lib python3 -B /g/runner.py unittest"},
		{"python3 -m pytest -q -k 'not slow'", "pytest", "python3 /g/runner.py pytest -q -k 'not slow'"},
		{"pytest", "pytest", "python3 /g/runner.py pytest --as-command"},
		{" node --test test/ ", "node --test", `NODE_OPTIONS="--require=/g/guard.cjs" node --test --test-reporter=spec --test-reporter-destination=stdout --test-reporter=/g/reporter.mjs --test-reporter-destination=/g/report test/`},
		{"go test ./...", "go test", "go test -json ./..."},
		{"CGO_ENABLED=0 go test -race ./...", "go test", "CGO_ENABLED=0 go test -json -race ./..."},
		{"cargo test --quiet", "cargo test", "cargo test --no-fail-fast"},
		{"cargo test --no-fail-fast -- -Z x", "cargo test", "cargo test --no-fail-fast -- -Z x"},
		{"go test -json ./...", "", ""},
		{"node --test --test-reporter=tap", "", ""},
		{"go test ./... || true", "", ""},
		{"go test ./...; exit 0", "", ""},
		{"go test ./... | tail", "", ""},
		{"go test $(cat packages)", "", ""},
		{"go test ./...\nexit 0", "", ""},
		{"go testing", "", ""},
		{"go vet ./...", "", ""},
		{"make test | tee log", "", ""},
		{"make test || true", "", ""},
		{"make test; true", "", ""},
		{"make test &", "", ""},
		{"make `x`", "", ""},
		{"maketest", "", ""},
		{"true && grep -q x y", "", ""},
		{"make test", "", "wrapped"},
		{"npm test --silent", "", "wrapped"},
		{"CI=1 yarn test", "", "wrapped"},
		{"pnpm run test:unit -- --runInBand", "", "wrapped"},
		{"npm ci && npm test", "", "wrapped"},
		{"./gradlew --offline test", "", "wrapped"},
		{"mvn -q -o test", "", "wrapped"},
		{"cmake --build build && cd build && ctest", "", "wrapped"},
		{"uv run pytest", "", "wrapped"},
		{"sh test/run.sh", "", "wrapped"},
		{"go vet ./... && go test ./...", "", "wrapped"},
		{"cd a && cd b && go test", "", "wrapped"},
		{"python3 -m unittest_fake", "", "wrapped"},
	} {
		p := For(tt.command)
		want := tt.run
		if tt.runner == "" {
			want = strings.TrimSpace(tt.command)
		}
		if tt.run == "wrapped" {
			run := p.Arm([]byte{1}, "/g")
			if p.kind != wrapped || p.Runner != "" || p.Failing() != 0 || !strings.Contains(run.Command, "\n("+want+"\n)\ncode=$?\n") || !strings.HasSuffix(run.Command, "\nexit $code\n") {
				t.Errorf("%q: kind %d, %q, run as %q", tt.command, p.kind, p.Runner, run.Command)
			}
			continue
		}
		if run := p.Arm([]byte{1}, "/g"); p.kind == wrapped || p.Runner != tt.runner || run.Command != want {
			t.Errorf("%q: %q, run as %q, want %q, %q", tt.command, p.Runner, run.Command, tt.runner, want)
		}
	}
}

// seal writes a report as a runner does.
func seal(key string, lines ...string) string {
	var b strings.Builder
	for n, l := range lines {
		fmt.Fprintf(&b, "%s %s\n", sum([]byte(key), n, []byte(l)), l)
	}
	return b.String()
}

func TestSealed(t *testing.T) {
	honest := []string{`{"begin": "unittest"}`, `{"start": "a"}`, `{"test": "a", "how": "passed"}`, `{"end": 0}`}
	before := readSealed("unittest", []byte("k"), []byte(seal("k", honest...)))
	if f := before.Against(Report{}); f.Why != "" || before.Count(Passed) != 1 || !before.Ended {
		t.Fatalf("the honest report: %+v, %+v", before, f)
	}
	swap := []string{honest[0], honest[2], honest[1], honest[3]}
	for name, tt := range map[string]struct{ content, want string }{
		"empty":              {"", "wrote no test report"},
		"cut":                {seal("k", honest[:2]...), "ended early in a"},
		"cut in a record":    {strings.TrimSuffix(seal("k", honest...), "\n"), "ended early"},
		"another key":        {seal("x", honest...), "wrong checksum"},
		"without a sum":      {`{"end": 0}` + "\n", "no checksum"},
		"a record left out":  {seal("k", honest[0]) + strings.Join(strings.SplitAfter(seal("k", honest...), "\n")[2:], ""), "wrong checksum"},
		"after the end":      {seal("k", append(honest, `{"test": "b", "how": "passed"}`)...), "data follows the end"},
		"not JSON":           {seal("k", "{"), "line 1"},
		"an unknown outcome": {seal("k", `{"test": "a", "how": "fine"}`), "unknown outcome"},
		"a failure":          {seal("k", honest[0], `{"test": "a", "how": "failed"}`, honest[3]), "tests failed"},
		"both":               {seal("k", honest[0], honest[2], `{"test": "a", "how": "failed"}`, honest[3]), "tests failed"},
		"tampered":           {seal("k", honest[0], `{"tampered": "x.y"}`, honest[2], honest[3]), "modified the test framework: x.y"},
		"lost":               {seal("k", honest[0], honest[2], `{"lost": "b"}`, honest[3]), "did not end: b"},
		"swapped":            {seal("k", swap...), "did not end: a"},
	} {
		r := readSealed("unittest", []byte("k"), []byte(tt.content))
		if f := r.Against(before); !strings.Contains(f.Why, tt.want) {
			t.Errorf("%s: %q, want %q in it: %+v", name, f.Why, tt.want, r)
		}
	}
	// What was so before the work is no finding.
	odd := readSealed("unittest", []byte("k"), []byte(seal("k", honest[0], `{"tampered": "x.y"}`, honest[2], honest[3])))
	if f := odd.Against(odd); f.Why != "" {
		t.Errorf("what was so before: %q", f.Why)
	}
}

const ctestOutput = `Test project /x/build
    Start 1: good
1/8 Test #1: good .............................   Passed    0.01 sec
    Start 2: with spaces
2/7 Test #2: with spaces ......................***Failed    0.00 sec
3/7 Test #3: missing ..........................***Not Run   0.00 sec
4/7 Test #4: slow .............................***Timeout   1.02 sec
5/7 Test #5: skip .............................***Skipped   0.01 sec
6/7 Test #6: off ..............................***Not Run (Disabled)   0.00 sec
7/7 Test #7: crash ............................***Exception: SegFault  0.00 sec
8/8 Test #8: pattern ..........................***Failed  Required regular expression not found. Regex=[x
]  0.00 sec

33% tests passed, 5 tests failed out of 7
`

func TestStdout(t *testing.T) {
	for name, tt := range map[string]struct {
		command, out, seen string
		passed, failed     int
		ended              bool
		lost               string
	}{
		"go": {"go test ./...", `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p"}
plain text
`, "plain text\n", 1, 0, true, ""},
		"go, tests that print": {"go test ./...", `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    x_test.go:3: no\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestC","Output":"panic: C\n"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
`, "    x_test.go:3: no\n--- FAIL: TestB (0.00s)\nFAIL\npanic: C\n", 1, 2, true, "p.TestC"},
		"go, a test that ended its process": {"go test ./...", `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`, "", 0, 0, true, "p.TestA p"},
		"go, a package that does not compile": {"go test ./...", `{"ImportPath":"p [p.test]","Action":"build-output","Output":"x.go:1: no\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
`, "x.go:1: no\n", 0, 1, true, ""},
		"cargo": {"cargo test", "     Running unittests src/lib.rs (target/debug/deps/x-1)\n\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed\n",
			"     Running unittests src/lib.rs (target/debug/deps/x-1)\n\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed\n", 1, 1, true, ""},
		"cargo, cut": {"cargo test", "running 2 tests\ntest a ... ok\n", "running 2 tests\ntest a ... ok\n", 1, 0, false, ""},
		"TAP":        {"make test", "TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 # skip no\n1..3", "TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 # skip no\n1..3", 1, 1, true, ""},
		"TAP, twice": {"make test", "1..1\nok 1 - a\n1..1\nok 1 - b\n", "1..1\nok 1 - a\n1..1\nok 1 - b\n", 2, 0, true, ""},
		"TAP, cut":   {"make test", "1..3\nok 1 - a\n", "1..3\nok 1 - a\n", 1, 0, false, ""},
		"go in make": {"make test", `make: Entering directory '/x'
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
{"other": "text"}
`, "make: Entering directory '/x'\n--- FAIL: TestA (0.00s)\n{\"other\": \"text\"}\n", 0, 2, true, ""},
		"ctest":      {"ctest", ctestOutput, ctestOutput, 1, 5, true, ""},
		"ctest, cut": {"ctest", "1/2 Test #1: a ...   Passed    0.01 sec\n", "1/2 Test #1: a ...   Passed    0.01 sec\n", 1, 0, false, ""},
		"text":       {"make test", "all is well\nok\n", "all is well\nok\n", 1, 0, false, ""},
	} {
		for _, size := range []int{1, 7, 1 << 20} { // however it comes
			run := For(tt.command).Arm(nil, "/g")
			var seen strings.Builder
			for rest := tt.out; rest != ""; {
				n := min(size, len(rest))
				seen.Write(run.Stdout([]byte(rest[:n])))
				rest = rest[n:]
			}
			seen.Write(run.End())
			r := run.Report(nil)
			if seen.String() != tt.seen || r.Count(Passed) != tt.passed || r.Count(Failed, Broken) != tt.failed || r.Ended != tt.ended || strings.Join(r.Lost, " ") != tt.lost {
				t.Errorf("%s, by %d: %+v, shown %q", name, size, r, seen.String())
			}
		}
	}
}

// TestBounds: a report without an end takes bounded memory, and long lines pass unread.
func TestBounds(t *testing.T) {
	run := For("go test ./...").Arm(nil, "/g")
	long := strings.Repeat("x", 3*maxLine) + "\n"
	if got := string(run.Stdout([]byte(long))) + string(run.End()); got != long {
		t.Errorf("%d bytes of a line of %d came through", len(got), len(long))
	}
	for i := range maxNotes + 10 {
		run.Stdout(fmt.Appendf(nil, "{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T%d\"}\n", i))
	}
	if n := len(run.Report(nil).Lost); n != maxNotes {
		t.Errorf("%d names are kept, want %d", n, maxNotes)
	}
}

// TestHostileNames: what a hostile program writes to stdout in the place of go test takes
// bounded memory, whatever it calls its tests.
func TestHostileNames(t *testing.T) {
	g := &goTest{open: map[string]bool{}, held: map[string][]byte{}}
	long := strings.Repeat("x", maxLine/2)
	for i := range 4 * maxOpen {
		for _, e := range []string{
			`{"Action":"run","Package":"p%d","Test":"%s"}`, `{"Action":"output","Package":"q%d","Test":"%s","Output":"o"}`, `{"Action":"fail","Package":"r%d","Test":"%s"}`,
		} {
			g.line(fmt.Appendf(nil, e, i, long[:min(len(long), 2*maxName)]), true)
		}
	}
	names := 0
	for name := range g.open {
		names += len(name)
	}
	if r := g.report(); names > maxOpen*maxName || len(g.held) > maxOpen || g.size > maxHeld || r.size > maxNames || r.Broken == "" {
		t.Errorf("%d bytes of names of %d open tests, %d held with %d bytes, %d bytes of names, broken %q", names, len(g.open), len(g.held), g.size, r.size, r.Broken)
	}
}

func FuzzSealed(f *testing.F) {
	f.Add([]byte(seal("k", `{"begin": "unittest"}`, `{"test": "a", "how": "passed"}`, `{"end": 0}`)))
	f.Fuzz(func(t *testing.T, p []byte) { readSealed("unittest", []byte("k"), p).Against(Report{}) })
}

func FuzzStdout(f *testing.F) {
	for _, command := range []string{"go test", "cargo test", "make", "sort"} {
		f.Add(command, []byte("{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\"}\nrunning 1 test\nok 1 - x # skip\n1..1\n"))
	}
	f.Fuzz(func(t *testing.T, command string, p []byte) {
		run := For(command).Arm(nil, "/g")
		run.Stdout(p)
		run.End()
		run.Report(nil).Against(Report{})
	})
}
