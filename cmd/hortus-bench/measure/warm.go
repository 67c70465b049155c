package measure

import (
	"context"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
)

// Rows of the measurement "warm"; the way follows.
const (
	rowWarm  = "create to first result, warm template"
	rowStart = "create to first result, interpreter started"
)

// heavy are modules that take long to import: what a program of data work begins
// with, and where this machine has none, much of the standard library.
var heavy = []string{
	"import numpy, pandas",
	"import asyncio, concurrent.futures, decimal, email.mime.multipart, http.server, json, logging.config, multiprocessing, sqlite3, ssl, unittest, urllib.request, xml.dom.minidom",
}

// question and answer are what programs are asked, once they have imported.
const question, answer = "6 * 7", "42"

// imports finds the first of the heavy ones that a sandbox has.
func (b *Bench) imports(ctx context.Context, id api.SandboxID) (module string, err error) {
	for _, module = range heavy {
		if _, err = b.in(ctx, id, python(module)); err == nil || ctx.Err() != nil {
			return module, err
		}
	}
	return "", err
}

// warms measures what a warm template spares: an interpreter that has imported
// answers in a sandbox of the template, and one is started in a plain sandbox, in
// turn. The clock is from the call of Create to the answer.
func (r *run) warms(ctx context.Context, backend string) error {
	id, _, err := r.birth(ctx, cold, backend)
	if err != nil {
		return err
	}
	module, err := r.imports(ctx, id)
	r.kill(id)
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	if err != nil {
		r.report(figure.Missing(rowWarm, backend, err.Error()))
		return nil
	}
	name := "hortus-bench-" + strings.ToLower(string(api.NewOwnerID()))
	s, err := r.Sandboxes.Templates.CreateTemplate(ctx, api.CreateTemplate{Name: name, Isolation: backend, Env: map[string]string{"PATH": path}, Run: []string{server(module)}}, nil)
	if err != nil {
		return err
	}
	defer r.drop(s.ID)
	start := python(module + "; print(" + question + ")")
	ask := []string{"sh", "-c", "echo '" + question + "' >ask; cat answer"}
	request := func(template string) api.CreateSandbox {
		req := request(backend)
		req.Template = template
		return req
	}
	type kind struct {
		name     string
		template string
		argv     []string
		way      way
		times    []time.Duration
	}
	var kinds []*kind
	list, err := r.waysOf(ctx, backend)
	if err != nil {
		return err
	}
	for _, w := range list {
		kinds = append(kinds, &kind{name: rowStart, argv: start, way: w}, &kind{name: rowWarm, template: name, argv: ask, way: w})
	}
	if len(list) > 1 {
		if err := r.Sandboxes.Creator.KeepWarm(ctx, request(name)); err != nil {
			return err
		}
	}
	const warmUp = 1
	n := max(r.N/8, 1)
	for i := range n + warmUp {
		r.step(backend, i, n+warmUp)
		for _, k := range kinds {
			took, err := r.result(ctx, k.way, request(k.template), k.argv)
			if err != nil {
				return err
			}
			if i >= warmUp {
				k.times = append(k.times, took)
			}
		}
	}
	r.step(backend, n+warmUp, n+warmUp)
	for i, k := range kinds {
		row := figure.Row{Name: k.name + ", " + k.way.name, Backend: backend, Note: k.way.note}
		if k.template != "" {
			row.Baseline = rowStart + ", " + k.way.name
		} else {
			row.Note = strings.TrimPrefix(row.Note+"; "+module, "; ")
		}
		r.times(row, k.times, figure.Median(kinds[i/2*2].times))
	}
	return nil
}

// server is the shell command that leaves a warm interpreter behind.
func server(module string) string {
	return `cat >warm.py <<'END'
import os
` + module + `
os.mkfifo("answer")
os.mkfifo("ask")
while True:
    for line in open("ask"):
        print(eval(line), file=open("answer", "w"))
END
setsid python3 -I warm.py </dev/null >log 2>&1 &
until [ -p ask ]; do kill -0 $! || { cat log >&2; exit 1; }; sleep 0.05; done`
}

// result creates a sandbox and has a question answered in it.
func (r *run) result(ctx context.Context, w way, req api.CreateSandbox, argv []string) (time.Duration, error) {
	if err := r.quiet(ctx); err != nil {
		return 0, err
	}
	id, took, err := r.started(ctx, func() (api.Sandbox, error) { return w.create(r.Sandboxes.Creator, ctx, req) }, func(id api.SandboxID) error {
		out, err := r.in(ctx, id, argv)
		if err == nil && strings.TrimSpace(out) != answer {
			err = api.Errorf(api.KindInternal, "sandbox %s answered %.40q, not %s", id, out, answer)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return took, r.destroy(ctx, id)
}
