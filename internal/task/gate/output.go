package gate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
)

// OutputName is the file of one gate's output.
func OutputName(n int, which string) string { return fmt.Sprintf("round-%d-%s", n, which) }

// OpenOutput opens the whole output of one gate below a task's folder: of round 0
// "before", or of a step of the setup, "setup-01", of the others "gate", "original", "without", "disguised", "acceptance" or "mutant".
func OpenOutput(dir string, round int, which string) (io.ReadCloser, error) {
	file := OutputName(round, which)
	switch {
	case round == 0 && setupOutput(dir, which):
		file = which
	case round == 0 && which == "before":
		file = "before"
	case round < 1 || round > api.MaxPasses || !slices.Contains([]string{api.GateResult, api.GateOriginal, api.GateMutant, api.GateWithout, api.GateDisguised, api.GateAcceptance}, which):
		return nil, api.Errorf(api.KindInvalid, "unknown gate %.20q of round %d: round 0 has before and the steps of the setup, such as setup-01, other rounds have gate, original, without, disguised, acceptance and mutant", which, round)
	}
	f, err := os.Open(filepath.Join(dir, file+".out"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.KindNotFound, "gate %s of round %d has not run", which, round)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the output of a gate: %w", err)
	}
	return f, nil
}

// setupOutput reports whether a name is the output of a step of the setup.
func setupOutput(dir, which string) bool {
	if !api.IsSetupOutput(which) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, which+".out"))
	return err == nil
}

// ExitText says how a gate that failed ended.
func ExitText(g api.Gate) string {
	switch {
	case g.Exit.Cause != "":
		return g.Exit.Cause
	case g.Tests != nil && g.Tests.Why != "":
		return g.Tests.Why
	}
	return fmt.Sprintf("exit code %d after %s", g.Exit.Code, (time.Duration(g.MS) * time.Millisecond).Round(time.Millisecond))
}

// A command that takes long says its last line: after a second, then every other second, and
// not for ever.
const (
	firstLine = time.Second
	nextLine  = 2 * time.Second
	maxLines  = 300
	maxTail   = 1 << 10 // bytes of output in which the last line is looked for
)

// Running notices what a command prints last: of a gate, or of a step of a setup.
type Running struct {
	say   func(line string)
	now   func() time.Time
	due   time.Time
	count int
	tail  []byte
	told  string
}

// NewRunning makes one that tells what it notices to say.
func NewRunning(now func() time.Time, say func(string)) *Running {
	return &Running{say: say, now: now, due: now().Add(firstLine)}
}

// Write takes a piece of the output.
func (r *Running) Write(p []byte) {
	r.tail = append(r.tail, p[max(0, len(p)-maxTail):]...)
	r.tail = r.tail[max(0, len(r.tail)-maxTail):]
	if r.count == maxLines || r.now().Before(r.due) {
		return
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(r.tail), ""))
	line := strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
	if line == "" || line == r.told {
		return
	}
	r.told, r.due = line, r.now().Add(nextLine)
	r.count++
	r.say(line)
}
