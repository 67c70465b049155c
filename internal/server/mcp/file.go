package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
)

func (s *Server) fileTools() {
	add(s, "file_read", "Read a file", reads, "Read a file of a sandbox, 32 KiB from an offset, or up to 1 MiB with max_bytes. Bytes that are not UTF-8 text are returned as base64. Read a large file in parts, each with the next_offset of the one before.", (*session).readFile)
	add(s, "file_write", "Write a file", replaces, "Write a whole file of a sandbox. Missing directories are created; an existing file is replaced. Write a large file in parts of about 1 MiB: the first without offset, each other one with the size of the result before as its offset.", (*session).writeFile)
	add(s, "file_list", "List a directory", reads, "List a directory of a sandbox.", (*session).listFiles)
}

// maxPart is the maximum size of a part of a file. Its base64 fits into a request and into a result.
const maxPart = 1 << 20

// Values of an encoding.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

type readInput struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path" jsonschema:"Absolute, or relative to /workspace"`
	Offset    int64  `json:"offset,omitempty" jsonschema:"Byte to start from (default 0)"`
	MaxBytes  int64  `json:"max_bytes,omitempty" jsonschema:"Maximum size of the part, up to 1048576 (default 32768)"`
}

type readOutput struct {
	Content    string `json:"content"`
	Encoding   string `json:"encoding" jsonschema:"utf-8 or base64"`
	Size       int64  `json:"size" jsonschema:"size of the file in bytes"`
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"offset of the next part; missing at the end of the file"`
}

func (s *session) readFile(ctx context.Context, _ *mcp.CallToolRequest, in readInput) (*mcp.CallToolResult, readOutput, error) {
	size := cmp.Or(in.MaxBytes, maxOutput)
	if in.Offset < 0 || size < utf8.UTFMax || size > maxPart {
		return nil, readOutput{}, api.Errorf(api.KindInvalid, "offset is %d and max_bytes %d", in.Offset, in.MaxBytes).
			WithHint("use an offset of 0 or more, and 4 to %d bytes", maxPart)
	}
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, readOutput{}, err
	}
	defer b.Close()
	file, err := stat(ctx, b, in.Path)
	if err != nil {
		return nil, readOutput{}, err
	}
	if in.Offset > 0 && in.Offset >= file.Size {
		return nil, readOutput{Encoding: encodingText, Size: file.Size}, nil
	}
	r, _, err := b.ReadPart(ctx, "", in.Path, in.Offset, size)
	if err != nil {
		return nil, readOutput{}, err
	}
	defer r.Close()
	part, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return nil, readOutput{}, err
	}
	if in.Offset+int64(len(part)) < file.Size {
		part = part[:wholeRunes(part)]
	}
	out := readOutput{Content: string(part), Encoding: encodingText, Size: file.Size}
	if !utf8.Valid(part) || bytes.IndexByte(part, 0) >= 0 {
		out.Content, out.Encoding = base64.StdEncoding.EncodeToString(part), encodingBase64
	}
	if next := in.Offset + int64(len(part)); next < file.Size {
		out.NextOffset = next
	}
	return nil, out, nil
}

// stat describes a file, or what a link leads to.
func stat(ctx context.Context, b *client.Sandbox, path string) (*envd.EntryInfo, error) {
	file, err := b.Stat(ctx, "", path)
	if err == nil && file.SymlinkTarget != nil {
		return b.Stat(ctx, "", *file.SymlinkTarget)
	}
	return file, err
}

type writeInput struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path" jsonschema:"Absolute, or relative to /workspace"`
	Content   string `json:"content" jsonschema:"At most about 3 MiB"`
	Offset    int64  `json:"offset,omitempty" jsonschema:"Append the content to a file of this size, instead of replacing the file"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"utf-8 (default), or base64 for content that is not text"`
}

type writeOutput struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes" jsonschema:"size of the content"`
	Size  int64  `json:"size" jsonschema:"size of the file: offset of the next part"`
}

func (s *session) writeFile(ctx context.Context, _ *mcp.CallToolRequest, in writeInput) (*mcp.CallToolResult, writeOutput, error) {
	content := []byte(in.Content)
	switch in.Encoding {
	case "", encodingText:
	case encodingBase64:
		var err error
		if content, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return nil, writeOutput{}, api.Errorf(api.KindInvalid, "content is not base64: %w", err)
		}
	default:
		return nil, writeOutput{}, api.Errorf(api.KindInvalid, "unknown encoding %.40q", in.Encoding).WithHint("use utf-8 or base64")
	}
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, writeOutput{}, err
	}
	defer b.Close()
	out := writeOutput{in.Path, len(content), in.Offset + int64(len(content))}
	if in.Offset != 0 {
		return nil, out, appendFile(ctx, b, in.Path, in.Offset, content)
	}
	return nil, out, b.WriteFile(ctx, "", in.Path, bytes.NewReader(content))
}

// appendFile adds content to a file, if it has that size. So a part that is written twice, because the first answer was lost, fails.
func appendFile(ctx context.Context, b *client.Sandbox, path string, size int64, content []byte) error {
	file, err := stat(ctx, b, path)
	if err != nil {
		return err
	}
	if file.Type == envd.FileTypeDirectory || file.Size != size {
		return api.Errorf(api.KindConflict, "%.200q is no file of %d bytes: it has %d", path, size, file.Size).
			WithHint("use its size as the offset, or no offset to write it anew")
	}
	cmd := b.Command(ctx, "sh", "-c", `exec cat >>"$1"`, "sh", file.Path)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(content), &stderr
	if err := cmd.Run(); err != nil {
		return api.Errorf(api.KindOf(err), "append to %.200q: %w: %.200s", path, err, stderr.Bytes())
	}
	return nil
}

type filesInput struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path,omitempty" jsonschema:"Absolute, or relative to /workspace, which is the default"`
	Depth     int    `json:"depth,omitempty" jsonschema:"How many levels of directories, 1 to 10 (default 1)"`
}

type fileView struct {
	Path string `json:"path"`
	Type string `json:"type" jsonschema:"file, directory or symlink"`
	Size int64  `json:"size"`
}

type filesOutput struct {
	Entries   []fileView `json:"entries,omitempty"`
	Truncated bool       `json:"truncated,omitempty" jsonschema:"true if there are more than 500 entries: list a directory below"`
}

func (s *session) listFiles(ctx context.Context, _ *mcp.CallToolRequest, in filesInput) (*mcp.CallToolResult, filesOutput, error) {
	depth := max(in.Depth, 1)
	if depth > 10 {
		return nil, filesOutput{}, api.Errorf(api.KindInvalid, "depth is %d: use 1 to 10", depth)
	}
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, filesOutput{}, err
	}
	defer b.Close()
	path := in.Path
	if path == "" {
		path = "."
	}
	all, err := b.ListDir(ctx, "", path, depth)
	out := filesOutput{Truncated: len(all) > maxListed}
	for _, e := range all[:min(len(all), maxListed)] {
		out.Entries = append(out.Entries, fileView{e.Path, typeOf(e), e.Size})
	}
	return nil, out, err
}

func typeOf(e *envd.EntryInfo) string {
	switch {
	case e.SymlinkTarget != nil || e.Type == envd.FileTypeSymlink:
		return "symlink"
	case e.Type == envd.FileTypeDirectory:
		return "directory"
	}
	return "file"
}
