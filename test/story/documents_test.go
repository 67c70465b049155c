package story

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hortus.dev/test/document"
	"hortus.dev/test/tier"
)

// shownOnly are the commands of documents that TestDocuments does not run, by how they
// begin, with the reason.
var shownOnly = []struct{ file, begins, reason string }{
	{"docs/workspaces.md", "hortus workspace create team --shared", "needs two hosts: internal/storage/workspace/shared TestHandOver"},
	{"docs/workspaces.md", "hortus sandbox run --workspace team", "the same"},
	{"README.md", "go run ./cmd/hortus run", "continuous integration runs it"},
	{"README.md", "go test ./...", "this is a part of it"},
	{"README.md", "tar ", "a release archive: .ci/release"},
	{"README.md", "sudo ", "changes the machine; cmd/hortus-release installs the package in a test"},
	{"README.md", "make build", "minutes of compiling; continuous integration runs it"},
	{"README.md", "go install ", "writes to the user's GOBIN"},
	{"README.md", "hortus gvisor build", "this hortus has gVisor in it: cmd/hortus TestGoRun"},
	{"CONTRIBUTING.md", "", "commands of this project's own tests"},
	{"docs/testing.md", "", "commands of this project's own tests"},
	{"docs/performance.md", "", "minutes of measurement; cmd/hortus-bench tests the command"},
	{"docs/cli.md", "hortus task --repo https://HOST", "needs a forge: TestTaskDelivers"},
	{"docs/cli.md", "HORTUS_API_KEY=e2b_... hortus --host", "another machine's daemon: operator_serve"},
	{"docs/cli.md", "hortus context add", "another machine's daemon: internal/cli TestContext*"},
	{"docs/cli.md", "hortus context use", "the same"},
	{"docs/delivery.md", "", "needs a forge: TestTaskDelivers"},
	{"docs/dependencies.md", "hortus repo prepare shop", "needs three repositories: TestSetupSideBySide"},
	{"docs/e2b.md", "", "sets variables, or runs test/e2b"},
	{"docs/images.md", "", "needs a registry: TestScripts/user_images, and test/daemon TestImages"},
	{"docs/kubernetes.md", "", "needs a cluster: make kubernetes"},
	{"docs/snapshots.md", "HORTUS_TEST_TIER=", "a test of this project"},
	{"docs/mcp.md", "hortus serve", "goes on until Ctrl-C: test/mcp"},
	{"docs/models.md", "", "asks a hosted model: models_test asks a scripted server"},
	{"docs/openid.md", "", "needs the secret of a client at a provider: test/daemon TestOpenID"},
	{"docs/plans.md", "hortus plan answer", "needs an item that waits: TestPlanAmendment"},
	{"docs/plans.md", "hortus plan start --repo . --until", "needs an agent for several passes: TestScripts/user_plan_until"},
	{"docs/operations-cgroups.md", "", "changes the machine's own systemd"},
	{"docs/operations.md", "tar ", "a release archive: .ci/release"},
	{"docs/operations.md", "install ", "writes to /usr/local/bin"},
	{"docs/operations.md", "dpkg ", "changes the machine; cmd/hortus-release installs the package in a test"},
	{"docs/operations.md", "mkdir ", "for a machine that is reached with ssh"},
	{"docs/operations.md", "ssh ", "needs another machine"},
	{"docs/operations.md", "hortus --data-dir ~/hortus", "needs another machine"},
	{"docs/operations.md", "hortus daemon unit --install", "changes the machine's own systemd"},
	{"docs/operations.md", "systemctl ", "changes the machine's own systemd"},
	{"docs/operations.md", "hortus serve", "goes on until Ctrl-C: this test stands on it"},
	{"docs/operations.md", "export ", "is what a command prints"},
	{"docs/operations.md", "hortus key rm k3f9", "an identifier of an example"},
	{"docs/operations.md", "OTEL_EXPORTER_OTLP_ENDPOINT=", "a daemon in the foreground: internal/telemetry"},
	{"docs/operations.md", "hortus store migrate", "needs a Postgres server: test/daemon TestMigrateStore"},
	{"docs/operations.md", "hortus uninstall", "ends the daemon of this test: TestUninstall"},
	{"docs/remote.md", "", "needs a service: test/remote TestSameTask"},
	{"docs/replay.md", "hortus run --model planner=SMALL", "names of no model"},
	{"docs/replay.md", "hortus run --model SMALL", "names of no model"},
	{"docs/agents.md", "", "needs keys of models, and their agents: test/agents TestAgents"},
	{"docs/best-of.md", "", "needs models that answer in different ways: test/agents TestBestOfFive, TestSearchLevels"},
	{"docs/microvm.md", "", "needs a package with a kernel: test/conformance TestMicroVM"},
	{"docs/fleet.md", "", "needs a Postgres server and several machines: test/fleet"},
	{"docs/outside.md", "", "needs Codex and Claude Code, and goes on until Ctrl-C: test/outside"},
	{"docs/ports.md", "hortus sandbox forward", "goes on until Ctrl-C: TestForward"},
	{"docs/ports.md", "hortus sandbox url ID", "an identifier of an example: docs/api.md makes the same request"},
	{"docs/ports.md", "hortus sandbox browser ID", "an identifier of an example, and a Chromium: test/console TestSandboxPages"},
	{"docs/ports.md", "hortus sandbox ide ID", "an identifier of an example: test/console TestSandboxPages and TestEditor"},
	{"docs/templates.md", "hortus template create browser", "needs a Chromium: test/console TestSandboxPages"},
	{"docs/templates.md", "hortus sandbox create --template browser", "needs a Chromium: test/console TestSandboxPages"},
	{"docs/templates.md", "hortus template create ide", "needs the registry of npm: test/console TestEditor"},
	{"docs/templates.md", "hortus sandbox create --template ide", "needs the registry of npm: test/console TestEditor"},
	{"docs/templates.md", "hortus sandbox ide ID", "an identifier of an example, and the registry of npm: test/console TestEditor"},
	{"docs/templates.md", "hortus sandbox browser ID", "an identifier of an example, and a Chromium: test/console TestSandboxPages"},
	{"docs/egress.md", "hortus sandbox run --egress npm", "needs the npm registry: TestExamples"},
	{"docs/egress.md", "hortus sandbox run --egress api", "needs the internet: test/daemon TestEgressPrograms"},
	{"docs/egress.md", "hortus run 'Run this Python: import yaml", "may need a package index: TestInstall"},
	{"docs/egress.md", "hortus egress answer", "answers a connection that waits: test/daemon TestEgressAsk"},
	{"docs/files.md", "hortus task --repo . --off-limits", "TestTaskFilePolicy"},
	{"docs/files.md", "hortus task --repo . --read-only", "TestTaskFilePolicy"},
	{"docs/forks.md", "hortus template create numbers", "needs numpy"},
	{"docs/forks.md", "hortus sandbox run --template numbers", "needs numpy"},
	{"docs/secrets.md", "curl ", "for a sandbox: test/daemon TestSecret*"},
	{"docs/sessions.md", "hortus session send calc --repo https://git", "needs a forge: TestSessionDelivers"},
	{"docs/sessions.md", "hortus session send calc \"Add a test", "the same"},
	{"docs/tasks.md", "hortus task --issue", "needs a forge: TestTaskFromIssue"},
	{"docs/tasks.md", "hortus task --repo lib", "needs three repositories: TestScripts/user_several"},
	{"docs/tasks.md", "hortus task reply", "answers a question that a model asked: TestTaskReply"},
	{"docs/wasm.md", "hortus run --isolation wasm hello.wasm", "a module of the reader's: internal/backend/wasm TestModules"},
	{"docs/wasm.md", "hortus wasm install python", "needs a build of Python: TestScripts/user_wasm has what is refused"},
	{"docs/wasm.md", "hortus run --isolation wasm hello.py", "the same"},
	{"examples/README.md", "", "TestExamples runs them"},
}

// slow are the documents whose commands run several tasks or fork memory, with the stories that do the same in T1.
// In T1, internal/cli TestDocumentedCommands parses their commands.
var slow = map[string]string{
	"docs/documents.md":  "TestScripts/user_documents",
	"docs/files.md":      "TestTaskFilePolicy",
	"docs/forks.md":      "TestScripts/user_fork",
	"docs/plans.md":      "TestScripts/user_plan",
	"docs/sessions.md":   "TestSessionCommand",
	"docs/tried.md":      "TestDocuments/docs/tasks.md",
	"docs/workspaces.md": "TestWorkspaceSurvives",
}

// prepared is what a reader has at hand where a document begins, made by a shell.
const prepared = `
cp -R "$EXAMPLES/tasks/python" garden && cd garden && git init -q && git add -A &&
git -c user.name=Ada -c user.email=ada@example.org commit -qm "Begin" || exit 1
`

// TestDocuments runs the commands of README and the documents: those of one document
// after the other in one shell, in a directory that is a repository with a failing test.
// What stands below a command with a prompt is what it must print. T2 has all of them, T1 not
// those of slow.
func TestDocuments(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("the examples need curl: %v", err)
	}
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HORTUS_LISTEN=127.0.0.1:0")
	url := g.serveUntilEnd()
	used := make([]bool, len(shownOnly))
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../examples/README.md") {
		name, err := filepath.Rel("../..", file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// README's address may be somebody's.
		commands := document.Commands(strings.ReplaceAll(string(text), "http://127.0.0.1:7070", url))
		if name == "README.md" {
			// TestReadme runs its section "Try it".
			commands = slices.DeleteFunc(commands, func(c document.Command) bool { return inTryIt(string(text), c.Line) })
		}
		commands = slices.DeleteFunc(commands, func(c document.Command) bool {
			for i, s := range shownOnly {
				if s.file == name && strings.HasPrefix(c.Text, s.begins) {
					used[i] = true
					return true
				}
			}
			return false
		})
		ran += len(commands)
		if len(commands) > 0 {
			t.Run(name, func(t *testing.T) {
				if slow[name] != "" {
					tier.Soak(t)
				}
				g.document(t, commands)
			})
		}
	}
	for i, s := range shownOnly {
		if !used[i] {
			t.Errorf("%s shows no command %q any more", s.file, s.begins)
		}
	}
	if ran < 45 {
		t.Errorf("only %d commands ran", ran)
	}
}

// exits finds the exit code that a comment of a command names.
var exitComment = regexp.MustCompile(`# exit (\d+)`)

// document runs the commands in one shell.
func (g *garden) document(t *testing.T, commands []document.Command) {
	t.Helper()
	const mark = "----- command %d ended with"
	script := prepared
	for i, c := range commands {
		script += fmt.Sprintf("%s\necho '\n"+mark+"' $?\n", c.Text, i)
	}
	most := 5 * patience // of all commands together
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(slices.Clone(g.env), "EXAMPLES="+examples)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && ctx.Err() != nil {
		t.Errorf("%v after %s\n%s", err, most, &stderr)
	}
	rest := stdout.String()
	for i, c := range commands {
		printed, after, ok := strings.Cut(rest, fmt.Sprintf("\n"+mark+" ", i))
		if !ok {
			t.Fatalf("line %d: %s\ndid not end: %s\n%s", c.Line, c.Text, rest, &stderr)
		}
		code, after, _ := strings.Cut(after, "\n")
		rest = after
		want := "0"
		if m := exitComment.FindStringSubmatch(c.Text); m != nil {
			want = m[1]
		}
		if code != want {
			t.Errorf("line %d: %s\nexit code %s, want %s\n%s%s", c.Line, c.Text, code, want, printed, &stderr)
		}
		if !c.Prompt {
			continue
		}
		lines := regexp.QuoteMeta(strings.Join(c.Prints, "\n"))
		lines = "^" + strings.ReplaceAll(lines, `\.\.\.`, `[\s\S]*`) + "$"
		if printed = strings.TrimSpace(printed); !regexp.MustCompile(lines).MatchString(printed) {
			t.Errorf("line %d: %s\nprinted\n%s\nwant\n%s\n%s", c.Line, c.Text, printed, strings.Join(c.Prints, "\n"), &stderr)
		}
	}
}

// inTryIt reports whether a line of README is in its section "Try it".
func inTryIt(readme string, line int) bool {
	section := ""
	for i, l := range strings.Split(readme, "\n") {
		if strings.HasPrefix(l, "## ") {
			section = l
		}
		if i+1 == line {
			return section == "## Try it"
		}
	}
	return false
}

// TestTroubleshooting wants each message of docs/troubleshooting.md, in the first column
// of its tables, to be one that the source has. Those of the kernel and of shells are not.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, dir := range []string{"../../internal", "../../api"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	foreign := []string{"No space left on device", "Read-only file system", "Connection reset by peer", "hortus doctor"}
	messages := 0
	for line := range strings.Lines(string(text)) {
		cell, ok := strings.CutPrefix(line, "| ")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			for part := range strings.SplitSeq(m[1], "...") {
				if part = strings.TrimSpace(part); slices.Contains(foreign, part) {
					continue
				}
				messages++
				if !strings.Contains(source.String(), part) {
					t.Errorf("no part of Hortus says %q", part)
				}
			}
		}
	}
	if messages < 8 {
		t.Errorf("only %d messages", messages)
	}
}
