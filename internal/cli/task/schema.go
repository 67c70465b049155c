package task

import (
	"encoding/json"
	"io"
	"os"

	"hortus.dev/api"
)

// maxSchema is the maximum size of a schema, in bytes; the daemon has the same.
const maxSchema = 64 << 10

// schemaFlag is the flag for a structured result.
type schemaFlag struct {
	Schema string `complete:"files" placeholder:"FILE" help:"JSON Schema for what the program prints to stdout. It is verified only if that is one valid JSON value."`
}

// resultFlag is that of a task on a repository.
type resultFlag struct {
	Schema string `complete:"files" placeholder:"FILE" help:"JSON Schema for a value that the agent returns with its work. The task is verified only with a valid value."`
}

func (r resultFlag) read() (json.RawMessage, error) { return schemaFlag(r).read() }

// read returns the schema; nil without the flag.
func (s schemaFlag) read() (json.RawMessage, error) {
	if s.Schema == "" {
		return nil, nil
	}
	f, err := os.Open(s.Schema)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "--schema: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSchema+1))
	switch {
	case err != nil:
		return nil, api.Errorf(api.KindInvalid, "--schema: %w", err)
	case len(raw) > maxSchema:
		return nil, api.Errorf(api.KindInvalid, "--schema: %s has more than %d bytes", s.Schema, maxSchema)
	case !json.Valid(raw):
		return nil, api.Errorf(api.KindInvalid, "--schema: %s is not JSON", s.Schema).
			WithHint(`a schema looks like this: {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}`)
	}
	return raw, nil
}
