package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent/observe"
)

// Bounds of what is read back from a workspace.
const (
	maxOutputFiles = 64
	maxOutputFile  = 1 << 20
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
			return wrong("stdout is longer than %d bytes, too long to check as JSON", observe.WholeBytes), nil
		}
		if why := notJSON(whole); why != "" {
			return wrong("stdout is not one JSON value: %s", why), nil
		}
	}
	var notes []string
	for i, path := range a.Expect {
		if i == maxOutputFiles {
			notes = append(notes, fmt.Sprintf("only the first %d files were read back", maxOutputFiles))
			break
		}
		content, err := box.ReadFile(ctx, path, maxOutputFile)
		switch kind := api.KindOf(err); {
		case ctx.Err() != nil:
			return res, ctx.Err()
		case kind == api.KindNotFound:
			return wrong("the program did not leave the file %s", path), nil
		case kind == api.KindExhausted:
			notes = append(notes, fmt.Sprintf("%s is larger than %d bytes and was not read back", path, maxOutputFile))
		case kind == api.KindInvalid:
			return wrong("%s is not a regular file", path), nil
		case err != nil:
			return res, err
		case len(content) == 0:
			return wrong("the program left the file %s empty", path), nil
		case !utf8.Valid(content):
			notes = append(notes, fmt.Sprintf("%s is not text and was not read back", path))
		default:
			res.OutputFiles = append(res.OutputFiles, api.File{Path: path, Content: string(content)})
		}
	}
	res.OK, res.Detail = true, strings.Join(notes, "; ")
	return res, nil
}

// notJSON says what keeps b from being exactly one JSON value, or "".
func notJSON(b []byte) string {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err == io.EOF {
		return "it is empty"
	} else if err != nil {
		return err.Error()
	}
	if _, err := dec.Token(); err != io.EOF {
		return "more follows the first value"
	}
	return ""
}
