package repo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/task/gate"
)

// Kept finds layers of earlier tasks.
type Kept interface {
	// Find returns the layer of that key; KindNotFound if there is none.
	Find(ctx context.Context, key string) (Layer, func(), error)
	// Verified waits until the content of a layer was compared with what was stored. KindNotFound if it is not that.
	Verified(ctx context.Context, l Layer) error
	// ReadLayer returns a file of a layer, which has at most max bytes; KindNotFound if there is none.
	ReadLayer(ctx context.Context, l Layer, path string, max int64) ([]byte, error)
}

const (
	// maxEarlier is how many results of one gate are kept: each task that asks for a fresh one makes another.
	maxEarlier = 8
	// maxEarlierFile bounds a file of a result, in bytes. A gate whose output is longer is not kept.
	maxEarlierFile = 16 << 20
	earlierRecord  = "gate.json"
)

// earlierGate is a gate that ran before the work of an earlier task.
type earlierGate struct {
	gateRecord
	Ran api.ReusedGate `json:"ran"`
}

// earlierKey names what decides how the gate before the work ends; "" if it may end in another way the next time: if its sandbox may
// connect to something, or if it is not known what else is in it. A day is part of it, because tests may depend on the date.
func (j *gates) earlierKey(ctx context.Context, info api.Sandbox, installed SetupResult, layers []Layer) (string, error) {
	w := j.attempt.project
	if w.cfg.Kept == nil || w.cfg.Contents == nil || info.Egress != "" && info.Egress != api.EgressNone || len(info.Secrets) > 0 {
		return "", nil
	}
	sandbox := installed.Into(w.sandbox())
	contents, err := w.cfg.Contents(ctx, sandbox)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{
		"account": sandbox.Account, "commit": w.base.Hash, "command": j.attempt.res.Verify, "strict": w.req.Strict, "timeout": w.gateTimeout(),
		"contents": contents, "isolation": info.Isolation, "limits": info.Limits, "unenforced": info.Unenforced, "build": info.Build,
		"env": sandbox.Env, "layers": installed.Below(layers...), "services": installed.Services, "day": w.cfg.Now().UTC().Format("2006-01-02"),
	})
	if err != nil {
		return "", api.Errorf(api.KindInternal, "name the gate before the work: %w", err)
	}
	return fmt.Sprintf("gate 1 %x", sha256.Sum256(text)), nil
}

// earlier recalls the gate of a key, with its files, and what its tests reported. n counts the results that there are. A task that a person
// continues, perhaps because the failures before the work are in question, and one that asks for a fresh result run the gate.
func (j *gates) earlier(ctx context.Context, key string) (g api.Gate, ok bool, n int, err error) {
	w := j.attempt.project
	var l Layer
	for n = maxEarlier; n > 0; n-- {
		var release func()
		l, release, err = w.cfg.Kept.Find(ctx, fmt.Sprint(key, " ", n-1))
		if err == nil {
			defer release()
			break
		}
		if api.KindOf(err) != api.KindNotFound {
			return g, false, n, err
		}
	}
	if n == 0 || w.req.Fresh || len(w.earlier) > 0 || w.cfg.Kept.Verified(ctx, l) != nil {
		return g, false, n, nil
	}
	var was earlierGate
	text, err := w.cfg.Kept.ReadLayer(ctx, l, earlierRecord, maxEarlierFile)
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil || len(was.Commands) != len(j.checks) {
		return g, false, n, nil // it runs again
	}
	for _, ext := range outputs() {
		b, err := w.cfg.Kept.ReadLayer(ctx, l, "before"+ext, maxEarlierFile)
		if err != nil {
			return g, false, n, nil
		}
		if err := os.WriteFile(filepath.Join(j.attempt.dir, "before"+ext), b, 0o600); err != nil {
			return g, false, n, api.Errorf(api.KindInternal, "save the output of the gate: %w", err)
		}
	}
	for i, c := range j.checks {
		c.Tests, c.Unstable = was.Commands[i].Tests, was.Commands[i].Unstable
	}
	was.Gate.Reused = &was.Ran
	return was.Gate, true, n, nil
}

// outputs are the endings of the files of a gate.
func outputs() []string { return []string{".out", ".tests"} }

// keepEarlier keeps the gate before the work for later tasks, as the n-th result of its key. It must have ended by itself, with a report of all
// its tests, none of which failed and passed: anything else could end in another way the next time.
func (j *gates) keepEarlier(ctx context.Context, key string, n int, g api.Gate, ran []*gate.Ran) error {
	steady := !slices.ContainsFunc(j.checks, func(c *gate.Check) bool { return !c.Tests.Began || len(c.Unstable) > 0 })
	if !steady || n == maxEarlier || len(ran) != len(j.checks) || g.Exit.Cause != "" || g.Exit.Signal != "" || slices.ContainsFunc(ran, func(r *gate.Ran) bool { return r.Cut || !r.Report.Whole(r.Report) }) {
		return nil
	}
	w := j.attempt.project
	record := earlierGate{gateRecord{Gate: g}, api.ReusedGate{Task: w.task.ID, Commit: w.base.Hash, At: w.cfg.Now()}}
	for _, c := range j.checks {
		record.Commands = append(record.Commands, commandRecord{c.Plain, c.Tests, c.Unstable})
	}
	text, err := json.Marshal(record)
	if err != nil || len(text) > maxEarlierFile || g.OutputBytes > maxEarlierFile {
		return nil
	}
	_, release, err := w.cfg.Sandboxes.Layer(ctx, fmt.Sprint(key, " ", n), func(_ context.Context, dir string) error {
		for _, ext := range outputs() {
			if err := copyFile(filepath.Join(dir, "before"+ext), filepath.Join(j.attempt.dir, "before"+ext)); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(dir, earlierRecord), text, 0o644)
	})
	if err != nil {
		// What is not kept runs again.
		w.cfg.Logger.Warn("cannot keep the gate before the work", "task", w.task.ID, "err", err)
		return ctx.Err()
	}
	release()
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
