package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent/artifact"
)

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
func (e *Executor) collect(ctx context.Context, box Sandbox, named []string, before []FileInfo, res api.ExecutionResult) (api.ExecutionResult, error) {
	after, err := box.List(ctx)
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
		content, err := box.ReadFile(ctx, f.Path, maxOutputFile)
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
