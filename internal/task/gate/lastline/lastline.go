package lastline

import (
	"strings"
	"time"
)

// A gate that takes long says its last line: after a second, then every other second, and
// not for ever.
const (
	firstLine = time.Second
	nextLine  = 2 * time.Second
	maxLines  = 300
	maxTail   = 1 << 10 // bytes of output in which the last line is looked for
)

// Watch notices what a gate prints last. It is for one goroutine.
type Watch struct {
	say   func(line string)
	now   func() time.Time
	due   time.Time
	count int
	tail  []byte
	told  string
}

// New makes a Watch, which says the lines.
func New(now func() time.Time, say func(string)) *Watch {
	return &Watch{say: say, now: now, due: now().Add(firstLine)}
}

// Take takes a piece of the output.
func (r *Watch) Take(p []byte) {
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
