package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"hortus.dev/api"
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
func (e *Executor) verify(ctx context.Context, box Sandbox, a api.CodeArtifact, res api.ExecutionResult, out *observe.Capture) (api.ExecutionResult, error) {
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
		content, err := box.ReadFile(ctx, path, maxOutputFile)
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
