package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent/artifact"
	"hortus.dev/internal/agent/observe"
)

// Bounds of what is read back from a workspace.
const (
	maxOutputFiles = 64
	maxOutputFile  = 1 << 20
	maxOutputBytes = 4 << 20 // of all files
)

// verify decides, after exit code 0, whether the program left what was asked
// for, and reads the expected files back.
func (e *Executor) verify(ctx context.Context, sandbox Sandbox, a api.CodeArtifact, res api.ExecutionResult, out *observe.Capture) (api.ExecutionResult, error) {
	wrong := func(format string, args ...any) api.ExecutionResult {
		res.OK, res.Phase, res.Category = false, api.PhaseVerify, api.CategoryWrongOutput
		res.Detail = fmt.Sprintf(format, args...)
		return res
	}
	switch a.Output {
	case api.OutputText:
		if !out.Visible() {
			return wrong("the program ended with exit code 0 but wrote nothing to stdout"), nil
		}
	case api.OutputJSON:
		whole, all := out.Bytes()
		if !all {
			return wrong("stdout is too long to parse as JSON: the maximum is %d bytes", observe.WholeBytes), nil
		}
		if why := notJSON(whole); why != "" {
			return wrong("stdout is not a single JSON value: %s", why), nil
		}
	}
	if e.cfg.Schema != nil {
		whole, all := out.Bytes()
		if !all {
			return wrong("stdout is too long for a JSON value: the maximum is %d bytes", observe.WholeBytes), nil
		}
		value, err := e.cfg.Schema.Check(whole)
		if err != nil {
			return wrong("stdout: %v", err), nil
		}
		res.Value = value
	}
	for i, path := range a.Expect {
		if i == maxOutputFiles {
			res.LeftOut = append(res.LeftOut, fmt.Sprintf("%d files of the plan; the maximum is %d", len(a.Expect)-i, maxOutputFiles))
			break
		}
		content, err := sandbox.ReadFile(ctx, path, maxOutputFile)
		switch kind := api.KindOf(err); {
		case ctx.Err() != nil:
			return res, ctx.Err()
		case kind == api.KindNotFound:
			return wrong("the program did not create the file %s", path), nil
		case kind == api.KindExhausted:
			res.LeftOut = append(res.LeftOut, fmt.Sprintf("%s: larger than %d bytes", path, maxOutputFile))
		case kind == api.KindInvalid:
			return wrong("%s is not a regular file", path), nil
		case err != nil:
			return res, err
		case len(content) == 0:
			return wrong("the file %s is empty", path), nil
		default:
			res.OutputFiles = append(res.OutputFiles, madeFile(path, content))
		}
	}
	res.OK = true
	return res, nil
}

// notJSON returns what keeps b from being exactly one JSON value, or "".
func notJSON(b []byte) string {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err == io.EOF {
		return "no value"
	} else if err != nil {
		return err.Error()
	}
	if _, err := dec.Token(); err != io.EOF {
		return "data follows the first value"
	}
	return ""
}

// checkTimeout bounds one check.
const checkTimeout = 30 * time.Second

// outputFile is where checks find what the program wrote, beside the program.
const outputFile = ".hortus-output"

// check runs the plan's checks in the sandbox of a program that did what was planned. The
// first that fails makes it a program that did not.
func (e *Executor) check(ctx context.Context, sandbox Sandbox, p Pass, res api.ExecutionResult, out *observe.Capture) (api.ExecutionResult, error) {
	whole, _ := out.Bytes()
	if err := sandbox.WriteFile(ctx, outputFile, whole, false); err != nil {
		return res, err
	}
	for _, c := range p.Checks {
		e.cfg.Emit.Emit(ctx, api.EventPhase, api.PhaseEvent{Attempt: p.N, Phase: api.PhaseVerify, Command: c.Command})
		said := &observe.Capture{}
		ex, err := sandbox.Run(ctx, api.ExecRequest{
			Args: []string{"bash", "-c", packages(p.Artifact) + c.Command}, Env: map[string]string{"OUTPUT": outputFile},
			TimeoutMS: checkTimeout.Milliseconds(), Tag: string(api.PhaseVerify),
		}, func(_ string, piece []byte) error {
			_, err := said.Write(piece)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && ex.State == api.ExecUnknown && ex.Exit.Cause == "" {
			err = api.Errorf(api.KindUnavailable, "the result of a check in sandbox %s is unknown", ex.Sandbox)
		}
		if err != nil {
			return res, err
		}
		r := api.CheckResult{Name: c.Name, Passed: ex.Exit.Code == 0 && ex.Exit.Cause == ""}
		if !r.Passed {
			r.Output = said.Text()
			res.OK, res.Phase, res.Category = false, api.PhaseVerify, api.CategoryWrongOutput
			how := fmt.Sprintf("exit %d", ex.Exit.Code)
			if ex.Exit.Cause != "" {
				how = ex.Exit.Cause
			}
			res.Detail = fmt.Sprintf("the check %q failed (%s): %s", api.Clip(c.Name, 256), how, api.Clip(c.Command, 512))
		}
		if res.Checks = append(res.Checks, r); !r.Passed {
			break
		}
	}
	return res, nil
}

// madeFile is a file that a program made.
func madeFile(path string, content []byte) api.File {
	if utf8.Valid(content) {
		return api.File{Path: path, Content: string(content)}
	}
	return api.File{Path: path, Base64: base64.StdEncoding.EncodeToString(content)}
}

// byProduct reports whether a file is one that interpreters and tools leave behind, such as
// Python's compiled modules. Hidden files and directories count as such.
func byProduct(name string) bool {
	return path.Ext(name) == ".pyc" || slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return strings.HasPrefix(part, ".") || part == "__pycache__" || part == "node_modules"
	})
}

// collect reads back what the program made or changed, beside the files that the plan
// named, which are in res already. What cannot be read back is named.
func (e *Executor) collect(ctx context.Context, sandbox Sandbox, named []string, before []FileInfo, res api.ExecutionResult) (api.ExecutionResult, error) {
	after, err := sandbox.List(ctx)
	if api.KindOf(err) == api.KindExhausted {
		res.LeftOut = append(res.LeftOut, "files not listed in the plan: too many to list")
		return res, nil
	}
	if err != nil {
		return res, err
	}
	slices.SortFunc(after, func(a, b FileInfo) int { return strings.Compare(a.Path, b.Path) })
	total := 0
	have := map[string]bool{}
	for _, name := range named {
		have[path.Clean(name)] = true
	}
	for _, f := range res.OutputFiles {
		total += len(f.Bytes())
	}
	more := 0
	for _, f := range after {
		if have[f.Path] || byProduct(f.Path) || slices.Contains(before, f) {
			continue
		}
		switch {
		case artifact.Path(f.Path) != nil:
			res.LeftOut = append(res.LeftOut, fmt.Sprintf("%.100q: invalid file name", f.Path))
			continue
		case len(res.OutputFiles) == maxOutputFiles:
			more++
			continue
		case f.Size > maxOutputFile:
			res.LeftOut = append(res.LeftOut, fmt.Sprintf("%s: %d bytes, the maximum is %d", f.Path, f.Size, maxOutputFile))
			continue
		case total+int(f.Size) > maxOutputBytes:
			res.LeftOut = append(res.LeftOut, fmt.Sprintf("%s: total size limit of %d bytes exceeded", f.Path, maxOutputBytes))
			continue
		}
		content, err := sandbox.ReadFile(ctx, f.Path, maxOutputFile)
		switch kind := api.KindOf(err); {
		case ctx.Err() != nil:
			return res, ctx.Err()
		case kind == api.KindNotFound, kind == api.KindInvalid, kind == api.KindExhausted, kind == api.KindDenied:
			res.LeftOut = append(res.LeftOut, f.Path+": the file changed while it was read or is not a regular file")
		case err != nil:
			return res, err
		default:
			// The size was the guest's word.
			if total += len(content); total > maxOutputBytes {
				res.LeftOut = append(res.LeftOut, fmt.Sprintf("%s: total size limit of %d bytes exceeded", f.Path, maxOutputBytes))
				continue
			}
			res.OutputFiles = append(res.OutputFiles, madeFile(f.Path, content))
		}
	}
	if more > 0 {
		res.LeftOut = append(res.LeftOut, fmt.Sprintf("%d more files: the maximum is %d files", more, maxOutputFiles))
	}
	if len(res.LeftOut) > maxOutputFiles {
		res.LeftOut = append(res.LeftOut[:maxOutputFiles:maxOutputFiles], fmt.Sprintf("and %d more", len(res.LeftOut)-maxOutputFiles))
	}
	return res, nil
}
