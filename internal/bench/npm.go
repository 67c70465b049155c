package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"time"

	"hortus.dev/api"
)

// NPM is how a program of the npm package e2b reaches the daemon.
type NPM struct {
	// Dir is a directory in which node finds the package, installed.
	Dir string
	// URL is the daemon's address for both planes, Key an API key for it.
	URL, Key string
	// Isolation is what the daemon gives to clients that have no word for it, as this
	// package has none.
	Isolation string
}

// lives is a program that lives one life for each line of its input, and answers with
// the times in milliseconds. The clock is the program's own.
const lives = `
const { Sandbox } = require('e2b')
const lines = require('readline').createInterface({ input: process.stdin })
const now = () => performance.now()
;(async () => {
  for await (const _ of lines) {
    const at = [now()]
    const box = await Sandbox.create({ timeoutMs: 600000 })
    at.push(now())
    try { await box.commands.run('/bin/true') } finally { at.push(now()); await box.kill() }
    at.push(now())
    console.log(JSON.stringify([1, 2, 3].map(i => at[i] - at[i - 1])))
  }
})().catch(e => { console.error(e && e.message || e); process.exit(1) })
`

// start starts the program. It ends with its input.
func (n *NPM) start(ctx context.Context, name string) (*speaker, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, api.Errorf(api.KindUnsupported, "there is no node on this host")
	}
	cmd := exec.CommandContext(ctx, node, "-e", lives)
	cmd.Dir = n.Dir
	// Nothing of the daemon's environment, which may hold keys, is the package's.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.Dir,
		"E2B_API_KEY=" + n.Key, "E2B_API_URL=" + n.URL, "E2B_SANDBOX_URL=" + n.URL}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "start node: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "start node: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, api.Errorf(api.KindInternal, "start node: %w", err)
	}
	answers := bufio.NewReaderSize(io.LimitReader(out, 1<<30), 64<<10)
	s := &speaker{name: name, end: func() { in.Close(); _ = cmd.Wait() }}
	s.live = func(context.Context) (took life, err error) {
		var times []float64
		_, err = io.WriteString(in, "\n")
		var line []byte
		if err == nil {
			line, err = answers.ReadSlice('\n')
		}
		if err == nil {
			err = json.Unmarshal(line, &times)
		}
		if err != nil || len(times) != len(deeds) {
			in.Close()
			_ = cmd.Wait() // so that all of its complaint is there
			return took, api.Errorf(api.KindInternal, "the npm SDK did not live a life: %v: %s", err, last(complaint.String()))
		}
		for i, t := range times {
			took[i] = time.Duration(t * float64(time.Millisecond))
		}
		return took, nil
	}
	return s, nil
}
