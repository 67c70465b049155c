package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
)

// maxTranscriptLine bounds one entry, in bytes.
const maxTranscriptLine = 16 << 20

// transcript prints what an agent and its model said to each other: for people, or
// with --json the lines as they are kept.
func (a *app) transcript(ctx context.Context, cl *client.Client, t api.Task) error {
	if t.Create.Repo == nil {
		return api.Errorf(api.KindInvalid, "--transcript: task %s works on no repository", t.ID)
	}
	r, err := cl.TaskTranscript(ctx, t.ID)
	if err != nil {
		return err
	}
	defer r.Close()
	if a.opt.JSON {
		return copyOut(a.env.Stdout, r, "the transcript")
	}
	return showTranscript(a.env.Stdout, r)
}

// showTranscript shows JSON lines to people, whatever their fields are: those that
// are short stand in an entry's first line, the others below it.
func showTranscript(w io.Writer, r io.Reader) error {
	out := bufio.NewWriter(w)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxTranscriptLine)
	for lines.Scan() {
		var entry map[string]any
		if json.Unmarshal(lines.Bytes(), &entry) != nil || entry == nil {
			// A line that was cut by the end of the daemon, for one.
			fmt.Fprintf(out, "-- %s\n", clean(lines.Text()))
			continue
		}
		showEntry(out, entry)
	}
	err := errors.Join(lines.Err(), out.Flush())
	if err != nil {
		return api.Errorf(api.KindUnavailable, "the transcript was cut: %w", err)
	}
	return nil
}

// entryHead are the fields that an entry's first line begins with, where they are.
var entryHead = [...]string{"at", "type", "kind", "role", "round", "step", "tool", "name"}

func showEntry(w io.Writer, entry map[string]any) {
	head := []string{"--"}
	for _, k := range entryHead {
		if v, ok := entry[k]; ok {
			if text := scalar(v); text != "" {
				head = append(head, clean(text))
				delete(entry, k)
			}
		}
	}
	keys := slices.Sorted(maps.Keys(entry))
	var below []string
	for _, k := range keys {
		if text := scalar(entry[k]); text != "" && len(text) <= 60 && !strings.Contains(text, "\n") {
			head = append(head, clean(k+"="+text))
		} else if entry[k] != nil && entry[k] != "" {
			below = append(below, k)
		}
	}
	fmt.Fprintln(w, strings.Join(head, " "))
	for _, k := range below {
		fmt.Fprintf(w, "   %s:\n", clean(k))
		text, ok := entry[k].(string)
		if !ok {
			b, _ := json.MarshalIndent(entry[k], "", "  ") // it was JSON a moment ago
			text = string(b)
		}
		for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			fmt.Fprintf(w, "     %s\n", harmless(strings.TrimRight(l, "\r"), maxPatchLine, "\t"))
		}
	}
}

// scalar writes a value that is no list and no object; empty for one that is.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64, bool:
		return strings.TrimSuffix(fmt.Sprintf("%v", v), ".0")
	}
	return ""
}

// gate prints everything that a gate printed.
func (c *taskLogsCmd) gate(ctx context.Context, a *app, cl *client.Client, t api.Task) error {
	if c.Stderr {
		return api.Errorf(api.KindInvalid, "--stderr: a gate's output and error output are kept as one")
	}
	which, n := c.Gate, 0
	if which == "" {
		which = api.GateResult
	}
	switch {
	case which == api.GateBefore && c.Attempt != nil:
		return api.Errorf(api.KindInvalid, "-n: the gate before the work belongs to no round")
	case which == api.GateBefore:
	case c.Attempt != nil:
		if n = *c.Attempt; n < 1 {
			return api.Errorf(api.KindInvalid, "-n: %d is not above 0", n)
		}
	case t.Repo == nil || len(t.Repo.Rounds) == 0:
		return api.Errorf(api.KindNotFound, "task %s has no round that ended", t.ID)
	default:
		n = t.Repo.Rounds[len(t.Repo.Rounds)-1].N
	}
	r, err := cl.TaskGate(ctx, t.ID, n, which)
	if err != nil {
		return err
	}
	defer r.Close()
	if !a.opt.JSON {
		return copyOut(a.env.Stdout, r, "the gate's output")
	}
	data, err := io.ReadAll(io.LimitReader(r, maxCaptured))
	if err != nil {
		return api.Errorf(api.KindUnavailable, "the gate's output: %w", err)
	}
	return a.json(struct {
		Task  api.TaskID `json:"task"`
		Round int        `json:"round,omitempty"`
		Gate  string     `json:"gate"`
		Data  []byte     `json:"data"`
	}{t.ID, n, which, data})
}
