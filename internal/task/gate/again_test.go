package gate_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate"
	"hortus.dev/internal/task/gate/report"
)

// noFiles is a sandbox in which no runner wrote a file.
type noFiles struct{}

func (noFiles) ReadFile(_ context.Context, path string, _ int64) ([]byte, error) {
	return nil, api.Errorf(api.KindNotFound, "no file %s", path)
}

func (noFiles) WriteFile(context.Context, string, []byte, bool) error { return nil }

// goRun is a run of go test on the package p: tests by name, each with "pass" or "fail".
func goRun(t *testing.T, c *gate.Check, code int, tests ...string) *gate.Ran {
	t.Helper()
	run := c.Plan.Arm(nil, "/g")
	line := func(format string, args ...any) { run.Stdout(fmt.Appendf(nil, format+"\n", args...)) }
	line(`{"Action":"start","Package":"p"}`)
	end := "pass"
	for _, one := range tests {
		name, how, _ := strings.Cut(one, "=")
		line(`{"Action":"run","Package":"p","Test":"%s"}`, name)
		if how == "hang" {
			continue
		}
		line(`{"Action":"output","Package":"p","Test":"%s","Output":"--- %s: %s (0.00s)\n"}`, name, strings.ToUpper(how), name)
		line(`{"Action":"%s","Package":"p","Test":"%s"}`, how, name)
		if how == "fail" {
			end = "fail"
		}
	}
	if end == "pass" {
		line(`{"Action":"output","Package":"p","Output":"PASS\n"}`)
	}
	line(`{"Action":"%s","Package":"p"}`, end)
	ran, err := gate.NewRan(t.Context(), noFiles{}, run, api.Exec{State: api.ExecExited, Exit: api.Exit{Code: code}})
	if err != nil {
		t.Fatal(err)
	}
	return ran
}

func TestAgain(t *testing.T) {
	many := []string{}
	for i := range api.MaxNamedTests + 1 {
		many = append(many, fmt.Sprintf("Test%d=fail", i))
	}
	type run struct {
		code  int
		tests []string
	}
	for _, c := range []struct {
		name   string
		before []string
		first  run
		again  []run
		passed bool
		says   string
	}{
		{"nothing failed", nil, run{0, []string{"TestA=pass"}}, nil, true, ""},
		{"by chance", nil, run{1, []string{"TestA=fail", "TestB=pass"}}, []run{{0, []string{"TestA=pass"}}, {0, []string{"TestA=pass"}}}, true, "p.TestA unstable: passed 2 of 3 runs"},
		{"twice", nil, run{1, []string{"TestA=fail"}}, []run{{1, []string{"TestA=fail"}}}, false, ""},
		{"twice of three times", nil, run{1, []string{"TestA=fail"}}, []run{{0, []string{"TestA=pass"}}, {1, []string{"TestA=fail"}}}, false, ""},
		{"one of two", nil, run{1, []string{"TestA=fail", "TestB=fail"}}, []run{{1, []string{"TestA=pass", "TestB=fail"}}, {0, []string{"TestA=pass"}}}, false, "p.TestA unstable: passed 2 of 3 runs"},
		{"the run again is cut", nil, run{1, []string{"TestA=fail"}}, []run{{0, []string{"TestA=pass", "TestB=hang"}}}, false, ""},
		{"the run again ends in another way", nil, run{1, []string{"TestA=fail"}}, []run{{3, []string{"TestA=pass"}}}, false, ""},
		{"the run again has no such test", nil, run{1, []string{"TestA=fail"}}, []run{{0, []string{"TestB=pass"}}}, false, ""},
		{"another exit code", nil, run{2, []string{"TestA=fail"}}, nil, false, ""},
		{"a run that was cut", nil, run{1, []string{"TestA=fail", "TestB=hang"}}, nil, false, ""},
		{"too many", nil, run{1, many}, nil, false, ""},
		{"it failed before too", []string{"TestA=fail"}, run{1, []string{"TestA=fail"}}, nil, false, ""},
		{"another one failed before", []string{"TestA=fail"}, run{1, []string{"TestA=fail", "TestB=fail"}}, []run{{0, []string{"TestB=pass"}}, {0, []string{"TestB=pass"}}}, false, "p.TestB unstable: passed 2 of 3 runs"},
	} {
		check := &gate.Check{Text: "go test ./...", Plan: report.For("go test ./...")}
		if c.before != nil {
			check.Tests = goRun(t, check, 1, c.before...).Report
		}
		ran := goRun(t, check, c.first.code, c.first.tests...)
		runs := 0
		for ; runs < gate.MaxAgain; runs++ {
			again := ran.Again(check)
			if again == nil {
				break
			}
			if runs == len(c.again) {
				t.Fatalf("%s: it runs again more than %d times", c.name, runs)
			}
			ran.Take(check, goRun(t, again, c.again[runs].code, c.again[runs].tests...))
		}
		ran.Adjust(check)
		g := api.Gate{Passed: ran.Passed, Exit: ran.Exit}
		if err := (gate.Reports{Checks: []*gate.Check{check}, Ran: []*gate.Ran{ran}, Need: gate.AllTests, File: filepath.Join(t.TempDir(), "tests")}).Weigh(&g); err != nil {
			t.Fatal(err)
		}
		says := ""
		for _, u := range g.Tests.Unstable {
			says += u.Name + " " + u.Says()
		}
		if g.Passed != c.passed || runs != len(c.again) || says != c.says {
			t.Errorf("%s: passed %v after %d further runs, %q; %+v", c.name, g.Passed, runs, says, g.Tests)
		}
		if old := len(c.before) > 0; g.Tests.OldOnly != old {
			t.Errorf("%s: only old failures: %+v", c.name, g.Tests)
		}
	}
}

// TestWrapped: the report of a command that starts runners can fail a gate, and never pass one.
func TestWrapped(t *testing.T) {
	type run struct {
		code  int
		tests []string
	}
	for _, c := range []struct {
		name          string
		before, after run
		passed, known bool // the gate, and its tests
		says          string
	}{
		{"all pass", run{0, []string{"TestA=pass"}}, run{0, []string{"TestA=pass", "TestB=pass"}}, true, true, ""},
		{"one is repaired", run{2, []string{"TestA=pass", "TestB=fail"}}, run{0, []string{"TestA=pass", "TestB=pass"}}, true, true, ""},
		{"one is gone", run{0, []string{"TestA=pass", "TestB=pass"}}, run{0, []string{"TestA=pass"}}, false, true, "1 of the 2 tests"},
		{"one fails, and the exit code is 0", run{0, []string{"TestA=pass"}}, run{0, []string{"TestA=pass", "TestB=fail"}}, false, true, "although the exit code is 0"},
		{"one does not end", run{0, []string{"TestA=pass"}}, run{0, []string{"TestA=pass", "TestB=hang"}}, false, true, "did not end"},
		{"all pass, and the exit code is not 0", run{2, []string{"TestA=fail"}}, run{2, []string{"TestA=pass"}}, false, true, ""},
		{"only an old failure", run{2, []string{"TestA=fail", "TestB=fail"}}, run{2, []string{"TestA=fail", "TestB=pass"}}, false, true, ""},
		{"failures are ignored by the command", run{0, []string{"TestA=fail"}}, run{0, []string{"TestA=fail"}}, true, false, ""},
		{"a test did not end before", run{0, []string{"TestA=hang"}}, run{0, []string{"TestB=pass"}}, true, false, ""},
	} {
		check := &gate.Check{Text: "make test", Plan: report.For("make test")}
		weigh := func(r run, before bool) api.Gate {
			ran := goRun(t, check, r.code, r.tests...)
			if again := ran.Again(check); again != nil {
				t.Errorf("%s: it runs tests again", c.name)
			}
			g := api.Gate{Exit: ran.Exit, Passed: ran.Passed}
			x := gate.Reports{Checks: []*gate.Check{check}, Ran: []*gate.Ran{ran}, Before: before, Need: gate.AllTests, File: filepath.Join(t.TempDir(), "tests")}
			if err := x.Weigh(&g); err != nil {
				t.Fatal(err)
			}
			return g
		}
		weigh(c.before, true)
		g := weigh(c.after, false)
		if g.Passed != c.passed || (g.Tests != nil) != c.known || g.Tests != nil && (g.Tests.OldOnly || !strings.Contains(g.Tests.Why, c.says) || g.Tests.Runner != "go test") {
			t.Errorf("%s: passed %v, %+v", c.name, g.Passed, g.Tests)
		}
	}
}
