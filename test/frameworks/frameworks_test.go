package frameworks

import (
	"bytes"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

func TestMain(m *testing.M) { world.Main(m) }

const examples = "../../examples/frameworks"

// shell is a model that calls a tool "shell" and reads its result.
const shell = `
-- call --
call: shell

{"command": "echo sum: $((20 + 22)) > sum.txt; cat sum.txt"}
-- answer --
last: sum: 42

The sum is 42.
`

// Each agent has its framework's own loop, and works with a tool that runs in a sandbox. The model
// answers only if the result of the tool reached it.
var scripted = map[string]string{
	"langgraph.mjs": shell,
	"mastra.mjs":    shell,
	"openai-agents.mjs": `
-- call --
wire: responses
answer: raw

{"id":"resp_1","object":"response","created_at":0,"status":"completed","model":"m","output":[{"type":"shell_call","id":"sc_1","call_id":"call_1","status":"completed","action":{"commands":["echo sum: $((20 + 22)) > sum.txt","cat sum.txt; exit 3"],"timeout_ms":null,"max_output_length":null}}],"usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":2}}
-- answer --
wire: responses
expect: sum: 42

The sum is 42.
`,
	"vercel-ai.mjs": `
-- write --
call: writeFile

{"path": "numbers.txt", "content": "20\n22\n"}
-- add --
last: written
call: python

{"code": "sum(map(int, open('numbers.txt')))"}
-- answer --
last: 42

The sum is 42.
`,
	"mcp-host.mjs": `
-- call --
call: run

{"request": "Write a Python script that prints the first 5 prime numbers", "model": "offline"}
-- answer --
last: 2, 3, 5, 7, 11

The sum is 42.
`,
}

func TestJavaScript(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	modules := installed(t)
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	key := w.Key("frameworks", api.RoleUser).Secret
	files, err := filepath.Glob(examples + "/*.mjs")
	if err != nil || len(files) != len(scripted) {
		t.Fatalf("%d examples, %d scripts: %v", len(files), len(scripted), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, err := modelserver.New([]byte(strings.TrimPrefix(scripted[name], "\n")))
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(model)
			defer srv.Close()
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(modules, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			out := run(t, exec.Command("node", filepath.Join(modules, name), "Add 20 and 22."), "HORTUS_HOST="+w.URL, "HORTUS_API_KEY="+key,
				"OPENAI_BASE_URL="+srv.URL+"/v1", "OPENAI_API_KEY=none", "MODEL=m", "OPENAI_AGENTS_DISABLE_TRACING=1", "MASTRA_TELEMETRY_DISABLED=1")
			if out != "The sum is 42.\n" || len(model.Problems()) > 0 {
				t.Errorf("it printed %q; %q", out, model.Problems())
			}
		})
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	key := w.Key("frameworks", api.RoleUser).Secret
	stubs, err := filepath.Abs("stubs")
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs("../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(examples + "/*.py")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			out := run(t, exec.Command("python3", file, "Add 20 and 22."), "HORTUS_HOST="+w.URL, "HORTUS_API_KEY="+key,
				"PYTHONPATH="+stubs+":"+sdk, "PYTHONDONTWRITEBYTECODE=1")
			if !strings.Contains(out, "sum: 42") {
				t.Errorf("it printed %q", out)
			}
		})
	}
}

// run runs an example and returns what it prints.
func run(t *testing.T, cmd *exec.Cmd, env ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = append(os.Environ(), env...), &stdout, &stderr, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience.Of(2*time.Minute), func() { cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

// installed returns a directory whose modules are the frameworks and the SDK, or skips the test with the reason.
func installed(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache to look for the frameworks in: %v", err)
	}
	dir := filepath.Join(cache, "hortus-frameworks")
	lock, err := os.ReadFile(examples + "/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	there, _ := os.ReadFile(dir + "/package-lock.json")
	all, err := filepath.Glob(dir + "/node_modules/*")
	if err != nil || !bytes.Equal(lock, there) || len(all) == 0 {
		t.Skipf("the frameworks are not installed: mkdir -p %s && cp examples/frameworks/package*.json %s && npm ci --ignore-scripts --prefix %s", dir, dir, dir)
	}
	sdk, err := filepath.Abs("../../sdk/typescript")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := os.Mkdir(filepath.Join(out, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, from := range append(all, sdk) {
		name := filepath.Base(from)
		if from == sdk {
			name = "hortus"
		}
		if err := os.Symlink(from, filepath.Join(out, "node_modules", name)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
