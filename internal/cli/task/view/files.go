package view

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// maxPatchLine bounds what is shown of one line on a terminal, in runes.
const maxPatchLine = 4000

// ShowPatch shows a patch on a terminal: in colours, and harmless, since its text is
// a stranger's.
func ShowPatch(w io.Writer, r io.Reader, colours bool) error {
	out := bufio.NewWriter(w)
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		text := strings.TrimSuffix(string(line), "\n")
		for long {
			_, err = in.ReadSlice('\n')
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if text != "" || err == nil {
			shown := human.SanitizeTo(text, maxPatchLine, "\t")
			if c := patchColour(text); colours && c != "" {
				shown = "\x1b[" + c + "m" + shown + "\x1b[0m"
			}
			fmt.Fprintln(out, shown)
		}
		switch {
		case errors.Is(err, io.EOF):
			return out.Flush()
		case err != nil:
			_ = out.Flush()
			return api.Errorf(api.KindUnavailable, "the download of the patch was interrupted: %w", err)
		}
	}
}

// patchColour is the colour of a line of a patch.
func patchColour(line string) string {
	for _, c := range []struct{ begins, colour string }{
		{"diff ", "1"}, {"index ", "1"}, {"--- ", "1"}, {"+++ ", "1"}, {"new file", "1"}, {"deleted file", "1"}, {"rename ", "1"},
		{"@@", "36"}, {"+", progress.Green}, {"-", progress.Red},
	} {
		if strings.HasPrefix(line, c.begins) {
			return c.colour
		}
	}
	return ""
}

// FileLine shows one changed file: "M path +3 -1".
func FileLine(f api.FileChange) string {
	letter := map[string]string{"added": "A", "modified": "M", "deleted": "D", "renamed": "R", "type changed": "T"}[f.Status]
	if letter == "" {
		letter = "?"
	}
	name := f.Path
	if f.OldPath != "" && f.OldPath != f.Path {
		name = f.OldPath + " -> " + f.Path
	}
	s := letter + " " + human.Sanitize(name)
	if f.Binary {
		s += " binary"
	} else {
		s += fmt.Sprintf(" +%d -%d", f.Added, f.Deleted)
	}
	if f.Test {
		s += " (test)"
	}
	return s
}
