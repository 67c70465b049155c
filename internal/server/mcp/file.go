package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

func (s *Server) fileTools() {
	add(s, "file_read", "Read a file", reads, "Read a file of a sandbox, up to 32 KiB from an offset. Bytes that are not UTF-8 text are returned as base64.", (*session).readFile)
	add(s, "file_write", "Write a file", replaces, "Write a whole file of a sandbox. Missing directories are created; an existing file is replaced.", (*session).writeFile)
	add(s, "file_list", "List a directory", reads, "List a directory of a sandbox.", (*session).listFiles)
}

// Values of an encoding.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

type readInput struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path" jsonschema:"Absolute, or relative to /workspace"`
	Offset    int64  `json:"offset,omitempty" jsonschema:"Byte to start from (default 0)"`
}

type readOutput struct {
	Content    string `json:"content"`
	Encoding   string `json:"encoding" jsonschema:"utf-8 or base64"`
	Size       int64  `json:"size" jsonschema:"size of the file in bytes"`
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"offset of the next part; missing at the end of the file"`
}

func (s *session) readFile(ctx context.Context, _ *mcp.CallToolRequest, in readInput) (*mcp.CallToolResult, readOutput, error) {
	if in.Offset < 0 {
		return nil, readOutput{}, api.Errorf(api.KindInvalid, "offset is %d: use 0 or more", in.Offset)
	}
	b, err := s.sandbox(ctx, in.SandboxID)
	if err != nil {
		return nil, readOutput{}, err
	}
	defer b.Close()
	r, size, err := b.ReadFile(ctx, "", in.Path)
	if err != nil {
		return nil, readOutput{}, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, in.Offset); err != nil && err != io.EOF {
		return nil, readOutput{}, err
	}
	part, err := io.ReadAll(io.LimitReader(r, maxOutput+1))
	if err != nil {
		return nil, readOutput{}, err
	}
	more := len(part) > maxOutput
	part = part[:min(len(part), maxOutput)]
	if more {
		part = part[:wholeRunes(part)]
	}
	out := readOutput{Content: string(part), Encoding: encodingText, Size: size}
	if !utf8.Valid(part) || bytes.IndexByte(part, 0) >= 0 {
		out.Content, out.Encoding = base64.StdEncoding.EncodeToString(part), encodingBase64
	}
	if out.Size < 0 {
		out.Size = in.Offset + int64(len(part))
	}
	if more {
		out.NextOffset = in.Offset + int64(len(part))
	}
	return nil, out, nil
}

type writeInput struct {
	SandboxID string `json:"sandbox_id"`
	Path      string `json:"path" jsonschema:"Absolute, or relative to /workspace"`
	Content   string `json:"content" jsonschema:"At most about 3 MiB"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"utf-8 (default), or base64 for content that is not text"`
}

type writeOutput struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
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
	return nil, writeOutput{in.Path, len(content)}, b.WriteFile(ctx, "", in.Path, bytes.NewReader(content))
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
