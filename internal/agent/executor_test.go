package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/test/agenttest"
)

func TestExecutor(t *testing.T) {
	with := func(src string, edit func(a *api.CodeArtifact)) api.CodeArtifact {
		a := program(src)
		if edit != nil {
			edit(&a)
		}
		return a
	}
	file := func(names ...string) func(a *api.CodeArtifact) {
		return func(a *api.CodeArtifact) { a.Output, a.Expect = api.OutputFile, names }
	}
	output := func(k api.OutputKind) func(a *api.CodeArtifact) { return func(a *api.CodeArtifact) { a.Output = k } }
	for _, c := range []struct {
		name     string
		artifact api.CodeArtifact
		ok       bool
		phase    api.Phase
		category api.Category
	}{
		{"text", with("print('hi')", nil), true, api.PhaseRun, ""},
		{"only white space", with("print('  ')", nil), false, api.PhaseVerify, api.CategoryWrongOutput},
		{"none may be silent", with("pass", output(api.OutputNone)), true, api.PhaseRun, ""},
		{"json", with("print('{\"a\": 1}')", output(api.OutputJSON)), true, api.PhaseRun, ""},
		{"two json values", with("print('1 2')", output(api.OutputJSON)), false, api.PhaseVerify, api.CategoryWrongOutput},
		{"no json", with("print('hello')", output(api.OutputJSON)), false, api.PhaseVerify, api.CategoryWrongOutput},
		{"file", with("open('o.txt','w').write('x')", file("o.txt")), true, api.PhaseRun, ""},
		{"no file", with("print(1)", file("o.txt")), false, api.PhaseVerify, api.CategoryWrongOutput},
		{"empty file", with("open('o.txt','w')", file("o.txt")), false, api.PhaseVerify, api.CategoryWrongOutput},
		{"link in place of a file", with("import os; os.symlink('/etc/passwd','o.txt')", file("o.txt")), false, api.PhaseVerify, api.CategoryWrongOutput},
		{"exit code", with("import sys; print(1); sys.exit(3)", nil), false, api.PhaseRun, api.CategoryUnknown},
		{"import", with("import nowhere_at_all", nil), false, api.PhaseRun, api.CategoryImport},
		{"timeout", with("import time; time.sleep(60)", func(a *api.CodeArtifact) { a.RunTimeoutMS = 300 }), false, api.PhaseRun, api.CategoryTimeout},
		{"install fails", with("print(1)", func(a *api.CodeArtifact) { a.Install = "exit 4" }), false, api.PhaseInstall, api.CategoryInstall},
		{"install timeout", with("print(1)", func(a *api.CodeArtifact) { a.Install, a.InstallTimeoutMS = "sleep 60", 300 }), false, api.PhaseInstall, api.CategoryTimeout},
		{"install then run", with("print(open('made').read())", func(a *api.CodeArtifact) { a.Install = "echo made > made" }), true, api.PhaseRun, ""},
		{"placeholder", with("def f():\n    # TODO: implement\n    pass\nprint(1)", nil), false, api.PhaseCheck, api.CategoryPlaceholder},
		{"no such command", with("print(1)", func(a *api.CodeArtifact) { a.Run = "no-such-interpreter main.py" }), false, api.PhaseRun, api.CategoryCommand},
		{"folders", with("print(open('d/e.txt').read())", func(a *api.CodeArtifact) {
			a.Files = append(a.Files, api.File{Path: "d/e.txt", Content: "deep"})
		}), true, api.PhaseRun, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			sandboxes, ev := agenttest.NewLocaldir(t), &events{}
			ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: ev})
			res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: c.artifact})
			if err != nil {
				t.Fatal(err)
			}
			if res.OK != c.ok || res.Phase != c.phase || res.Category != c.category {
				t.Errorf("ok %v phase %s category %q; want %v %s %q\n%+v", res.OK, res.Phase, res.Category, c.ok, c.phase, c.category, res)
			}
			want := int64(1)
			if c.phase == api.PhaseCheck {
				want = 0
			}
			if sandboxes.Created.Load() != want {
				t.Errorf("%d sandboxes, want %d", sandboxes.Created.Load(), want)
			}
		})
	}
}

func TestExecutorReadsFilesBack(t *testing.T) {
	a := program("open('a.txt','w').write('A'); open('b.txt','w').write('B'); open('big','w').write('x' * (1 << 20) + 'y'); open('raw','wb').write(b'\\xff\\xfe')")
	a.Output, a.Expect = api.OutputFile, []string{"a.txt", "big", "raw"}
	res, err := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: &events{}}).Execute(t.Context(), agent.Pass{Artifact: a})
	if err != nil || !res.OK {
		t.Fatal(res, err)
	}
	want := []api.File{{Path: "a.txt", Content: "A"}, {Path: "raw", Base64: "//4="}, {Path: "b.txt", Content: "B"}}
	if !slices.Equal(res.OutputFiles, want) {
		t.Errorf("files %+v, want those of the plan first: %+v", res.OutputFiles, want)
	}
	if len(res.LeftOut) != 1 || !strings.HasPrefix(res.LeftOut[0], "big: larger than") {
		t.Errorf("left out: %q", res.LeftOut)
	}
}

func TestExecutorKeepsTheWholeAndCutsTheObservation(t *testing.T) {
	var whole bytes.Buffer
	ev := &events{}
	res, err := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: agenttest.NewLocaldir(t), Emit: ev}).Execute(t.Context(), agent.Pass{
		Artifact: program("print('head'); print('x' * 1000000); print('tail')"), Stdout: &whole})
	if err != nil || !res.OK {
		t.Fatal(res, err)
	}
	if whole.Len() != 1000011 || res.StdoutBytes != 1000011 {
		t.Errorf("whole %d, counted %d", whole.Len(), res.StdoutBytes)
	}
	if len(res.Stdout) > 9000 || !strings.HasPrefix(res.Stdout, "head\n") || !strings.HasSuffix(res.Stdout, "tail\n") || !strings.Contains(res.Stdout, "bytes omitted") {
		t.Errorf("observation of %d bytes: %.20q", len(res.Stdout), res.Stdout)
	}
	sent := 0
	for _, e := range ev.all {
		if o, ok := e.data.(api.OutputEvent); ok {
			sent += len(o.Data)
		}
	}
	if sent != 1000011 {
		t.Errorf("events hold %d bytes", sent)
	}
}

func TestExecutorKeepsTheLastSandboxOnly(t *testing.T) {
	sandboxes := agenttest.NewLocaldir(t)
	ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: &events{}, Keep: true})
	for range 2 {
		if _, err := ex.Execute(t.Context(), agent.Pass{Artifact: program("print(1)")}); err != nil {
			t.Fatal(err)
		}
		if sandboxes.Left.Load() != 1 {
			t.Fatalf("%d open", sandboxes.Left.Load())
		}
	}
	if sandboxes.Created.Load() != 2 {
		t.Errorf("%d sandboxes; each attempt needs a fresh one", sandboxes.Created.Load())
	}
	if err := ex.Release(t.Context()); err != nil || ex.Left() != 0 {
		t.Error(err, ex.Left())
	}
}

func TestExecutorGivesTheSandboxTimeForItsTimeouts(t *testing.T) {
	sandboxes := agenttest.NewLocaldir(t)
	ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: &events{}, InstallTimeout: 10 * time.Minute, RunTimeout: time.Minute})
	if _, err := ex.Execute(t.Context(), agent.Pass{Artifact: program("print(1)")}); err != nil {
		t.Fatal(err)
	}
	if got := sandboxes.Asked()[0].TTLMS; got < (11 * time.Minute).Milliseconds() {
		t.Errorf("TTL %d ms is shorter than the timeouts", got)
	}
}

// record keeps a pipeline's attempts in memory and its output in files.
type record struct {
	events
	t        *testing.T
	dir      string
	attempts map[int]api.Attempt
	plan     *api.ExecutionPlan
}

func newRecord(t *testing.T) *record {
	return &record{t: t, dir: t.TempDir(), attempts: map[int]api.Attempt{}}
}

type named struct{ *os.File }

func (n named) Path() string { return n.Name() }

func (r *record) output(attempt int, stream string) agent.Whole {
	f, err := os.Create(filepath.Join(r.dir, string(rune('0'+attempt))+stream))
	if err != nil {
		r.t.Fatal(err)
	}
	return named{f}
}

// TestInstallPhase: the policy of the setup phase is in effect while the install command runs
// and no longer; files of the request come afterwards.
func TestInstallPhase(t *testing.T) {
	allow := func(host string) api.EgressPolicy {
		return api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: host}}}
	}
	setup, none := allow("setup.example"), api.EgressPolicy{}
	pip := api.EgressPolicy{Presets: []string{"pip"}}
	for _, c := range []struct {
		name    string
		install string
		setup   *api.EgressPolicy
		want    []api.EgressPolicy
	}{
		{"no installation", "", nil, nil},
		{"the registry of the language", "ls > seen; echo $PRESET >> seen", nil, []api.EgressPolicy{pip, none}},
		{"as requested", "true", &setup, []api.EgressPolicy{setup, none}},
		{"none", "true", &none, nil},
		{"a failure", "exit 3", nil, []api.EgressPolicy{pip, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sandboxes := agenttest.NewLocaldir(t)
			ex := agent.NewExecutor(agent.ExecutorConfig{
				Sandboxes: sandboxes, Emit: &events{}, Setup: c.setup,
				Inputs: []agent.Input{{Path: "secret.csv", Read: func() ([]byte, error) { return []byte("1\n"), nil }}},
			})
			a := program("import os; print(open('secret.csv').read(), os.path.exists('seen') and open('seen').read(), os.environ.get('PRESET'))")
			a.Install = c.install
			res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: a})
			if err != nil || res.OK != (c.name != "a failure") {
				t.Fatalf("%+v, %v", res, err)
			}
			if !slices.EqualFunc(sandboxes.Policies, c.want, func(a, b api.EgressPolicy) bool {
				return slices.Equal(a.Presets, b.Presets) && len(a.Rules) == len(b.Rules) && a.Opens() == b.Opens()
			}) {
				t.Errorf("policies %+v, want %+v", sandboxes.Policies, c.want)
			}
			if c.name == "the registry of the language" {
				if strings.Contains(strings.Split(res.Stdout, "None")[0], "secret.csv") || !strings.Contains(res.Stdout, "main.py") || !strings.Contains(res.Stdout, "pip\n") || !strings.Contains(res.Stdout, "None") {
					t.Errorf("the installation saw %q", res.Stdout)
				}
			}
		})
	}
}

// TestInstallWithoutEgress: a backend that cannot open connections runs the command as it is,
// unless the policy was requested.
func TestInstallWithoutEgress(t *testing.T) {
	setup := api.EgressPolicy{Presets: []string{"pip"}}
	for _, requested := range []*api.EgressPolicy{nil, &setup} {
		sandboxes := agenttest.NewLocaldir(t)
		sandboxes.RefuseEgress = api.Errorf(api.KindUnsupported, "this host cannot open connections")
		ex := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: sandboxes, Emit: &events{}, Setup: requested})
		a := program("print(1)")
		a.Install = "echo 'ERROR: No matching distribution found for wonder' >&2; exit 1"
		res, err := ex.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: a})
		if requested != nil {
			if api.KindOf(err) != api.KindUnsupported {
				t.Errorf("requested: %v", err)
			}
			continue
		}
		if err != nil || res.Missing != "wonder" || !strings.Contains(res.Detail, "cannot open connections") {
			t.Errorf("%+v, %v", res, err)
		}
	}
}
