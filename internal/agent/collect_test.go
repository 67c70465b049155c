package agent_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
	"hortus.dev/test/agenttest"
)

// TestFiles: a program reads the files that came with the request, and what it makes or
// changes is read back.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, program string
		files         map[string]string
		leftOut       []string
	}{
		{"reads alone", "print(open('data.csv').read())", nil, nil},
		{"makes", "open('a.txt', 'w').write('a'); open('data.csv', 'a').write('more'); print(1)", map[string]string{"a.txt": "a", "data.csv": "1,2\nmore"}, nil},
		{"makes no text", "open('a.bin', 'wb').write(b'\\xff\\0'); print(1)", map[string]string{"a.bin": "\xff\x00"}, nil},
		{"makes nothing of its own", "import os; os.makedirs('__pycache__'); open('__pycache__/a', 'w').write('a'); open('.hidden', 'w').write('a'); open('a.pyc', 'w').write('a'); print(1)", nil, nil},
		{"large", "open('a', 'wb').write(b'x' * (1 << 20)); open('b', 'wb').write(b'x' * ((1 << 20) + 1)); print(1)",
			map[string]string{"a": strings.Repeat("x", 1<<20)}, []string{"b: 1048577 bytes"}},
		{"much", "[open(f'{i}', 'wb').write(b'x' * (1 << 20)) for i in range(5)]; print(1)",
			map[string]string{"0": strings.Repeat("x", 1<<20), "1": strings.Repeat("x", 1<<20), "2": strings.Repeat("x", 1<<20), "3": strings.Repeat("x", 1<<20)},
			[]string{"4: total size limit"}},
		{"odd names", "open('a\\nb', 'w').write('a'); open('c', 'w').write('c'); print(1)", map[string]string{"c": "c"}, []string{`"a\nb": invalid file name`}},
		{"links", "import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); print(1)", nil, nil},
		{"many", "[open(f'{i:03}', 'w').write('x') for i in range(70)]; print(1)", many(64), []string{"6 more files"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			boxes, rec := agenttest.NewLocaldir(t), newRecord(t)
			e := agent.NewExecutor(agent.ExecutorConfig{Sandboxes: boxes, Emit: rec, RunTimeout: time.Minute, Inputs: []agent.Input{
				{Path: "data.csv", Read: func() ([]byte, error) { return []byte("1,2\n"), nil }},
			}})
			res, err := e.Execute(t.Context(), agent.Pass{N: 1, Of: 1, Artifact: api.CodeArtifact{Language: api.Python, Run: "python3 main.py",
				Files: []api.File{{Path: "main.py", Content: c.program}}, Output: api.OutputText}})
			if err != nil || !res.OK {
				t.Fatalf("%+v, %v", res, err)
			}
			if len(res.OutputFiles) != len(c.files) {
				t.Errorf("%d files, want %d: %.300v", len(res.OutputFiles), len(c.files), res.OutputFiles)
			}
			for _, f := range res.OutputFiles {
				if want, ok := c.files[f.Path]; !ok || !bytes.Equal(f.Bytes(), []byte(want)) {
					t.Errorf("%s: %.100q", f.Path, f.Bytes())
				}
			}
			if len(res.LeftOut) != len(c.leftOut) {
				t.Errorf("left out: %q", res.LeftOut)
			}
			for i, want := range c.leftOut {
				if i < len(res.LeftOut) && !strings.Contains(res.LeftOut[i], want) {
					t.Errorf("left out: %q, want %q", res.LeftOut[i], want)
				}
			}
		})
	}
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("%03d", i)] = "x"
	}
	return m
}
