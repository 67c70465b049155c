package clients

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// prints is what the example of each SDK prints.
const prints = "live: apple\npear\n\n3 apple\npear\n\n21\npear\napple\n\n"

// goExample has the Go code of docs/sdks.md.
func goExample(ctx context.Context, c *client.Client) error {
	// begin
	sandbox, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
	if err != nil {
		return err
	}
	defer sandbox.Kill(ctx)
	if err := sandbox.WriteFile(ctx, "", "words.txt", strings.NewReader("pear\napple\n")); err != nil {
		return err
	}
	out, err := sandbox.Command(ctx, "sort", "words.txt").Output()
	if err != nil {
		return err
	}
	fmt.Printf("%s", out)
	for event, err := range sandbox.RunCode(ctx, api.RunCode{Code: "6 * 7"}) {
		if err != nil {
			return err
		}
		if event.Type == api.CodeResult {
			fmt.Println(event.Text)
		}
	}
	fork, err := sandbox.Fork(ctx, api.ForkSandbox{})
	if err != nil {
		return err
	}
	fmt.Println(fork.Children[0].Sandbox.ID)
	// end
	return nil
}

// oldest reads the files of the Python SDK with the syntax of the oldest Python that it supports.
const oldest = `
import ast, glob
files = glob.glob("../../sdk/python/hortus/*.py")
for name in files:
    with open(name, encoding="utf-8") as file:
        ast.parse(file.read(), feature_version=(3, 9))
print(len(files), "files")
`

// TestPackages installs both SDKs as a user does, without a network, and runs the examples of their documents.
func TestPackages(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	doc, err := os.ReadFile("../../docs/sdks.md")
	if err != nil {
		t.Fatal(err)
	}
	w := world.Open(t, world.Config{})
	w.Isolates(t, "container")
	key := w.Key("packages", api.RoleUser).Secret
	for name, readme := range map[string]string{"node": typescript, "python3": python} {
		text, err := os.ReadFile(filepath.Join(readme, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile("(?s)```[a-z]+\n(.*?)```\n").FindSubmatch(text)
		if m == nil || !bytes.Contains(doc, m[0]) {
			t.Fatalf("docs/sdks.md does not have the example of %s/README.md", readme)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, map[string]string{"node": "example.mjs", "python3": "example.py"}[name])
			if err := os.WriteFile(file, m[1], 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "node" {
				install(t, dir)
			} else if got := program(key, name, "-c", oldest)(t, w.URL); got != "6 files\n" {
				t.Errorf("the syntax of the oldest Python: %q", got)
			}
			if got := program(key, name, file)(t, w.URL); got != prints {
				t.Errorf("%q, want %q", got, prints)
			}
		})
	}
	t.Run("go", func(t *testing.T) {
		source, err := os.ReadFile("package_test.go")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(source), "\t// begin\n")
		body, _, _ := strings.Cut(rest, "\t// end\n")
		want := strings.ReplaceAll(regexp.MustCompile(`(?m)^\t`).ReplaceAllString(body, ""), "\t", "    ")
		if !strings.Contains(string(doc), want) {
			t.Errorf("docs/sdks.md does not have the example of goExample:\n%s", want)
		}
		world.OK(t, goExample(t.Context(), w.Client))
	})
}

// install packs the TypeScript SDK and installs it in a directory.
func install(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	npm := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "npm", args...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(dir, "cache"), "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("npm %q: %v\n%s%s", args, err, out, stderr.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	npm(dir, "install", filepath.Join(dir, npm(typescript, "pack", "--silent", "--pack-destination", dir)))
	got, want := files(t, filepath.Join(dir, "node_modules/hortus")), files(t, filepath.Join(typescript, "dist"))
	for i, name := range want {
		want[i] = "dist/" + name
	}
	want = append(want, "README.md", "package.json", "types.d.ts")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the package has %q, want %q", got, want)
	}
}

// files returns the names of all files below a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestCompiled compiles the TypeScript SDK, and a program that uses its package.
func TestCompiled(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	tsc := compiler(t)
	out := filepath.Join(t.TempDir(), "dist")
	if *update {
		out = filepath.Join(typescript, "dist")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	tsc("-p", typescript, "--outDir", out)
	compiled, committed := contents(t, out), contents(t, filepath.Join(typescript, "dist"))
	if !maps.Equal(compiled, committed) {
		t.Errorf("sdk/typescript/dist is not current: go test ./test/clients -update")
	}
	dir := t.TempDir()
	install(t, dir)
	use := filepath.Join(dir, "use.mts")
	if err := os.WriteFile(use, []byte(`
import { Hortus, HortusError, type Kind, type Result, Sandbox, type types } from "hortus";
const sandbox: Sandbox = await Sandbox.create({ ttlMs: 1000 });
const result: Result = await sandbox.run(["true"]);
const limits: types.Limits = { memoryBytes: result.exitCode };
for await (const e of new Hortus().runs.events("t1")) if (e.type === "verdict") console.log(e.data?.outcome, limits);
try { await sandbox.kill(); } catch (e) { if (e instanceof HortusError) { const kind: Kind = e.kind; console.log(kind, e.hint); } }
// @ts-expect-error: an unknown field
await Sandbox.create({ ttl: 1 });
`), 0o600); err != nil {
		t.Fatal(err)
	}
	tsc("--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--lib", "es2022,dom,esnext.disposable", "--module", "nodenext", use)
}

// compiler finds the TypeScript compiler of package-lock.json, or skips the test with the reason.
func compiler(t *testing.T) func(args ...string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("no cache to look for the TypeScript compiler in: %v", err)
	}
	dir := filepath.Join(cache, "hortus-typescript")
	lock, err := os.ReadFile(filepath.Join(typescript, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadFile(filepath.Join(dir, "package-lock.json")); err != nil || !bytes.Equal(lock, there) {
		t.Skipf("the TypeScript compiler of sdk/typescript/package-lock.json is not installed: mkdir -p %s && cp sdk/typescript/package*.json %s && npm ci --ignore-scripts --prefix %s", dir, dir, dir)
	}
	return func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(2*time.Minute))
		defer cancel()
		if out, err := exec.CommandContext(ctx, "node", append([]string{filepath.Join(dir, "node_modules/typescript/bin/tsc")}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("tsc %q: %v\n%s", args, err, out)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}
