package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// Display shows on stderr what continues: plain lines, and on a terminal a status line
// below them when something takes longer than a second.
type Display struct {
	w      io.Writer
	Quiet  bool
	tty    bool
	colour bool
	head   string // what its lines begin with

	mu     sync.Mutex
	status string // what is going on; empty for nothing
	since  time.Time
	shown  bool // the status line is on the screen
	frame  int
	// mentioned is when the last line about something that runs was printed.
	mentioned time.Time

	once       sync.Once
	quit, done chan struct{}
}

const (
	// statusAfter is how long something takes before the status line shows it.
	statusAfter = time.Second
	statusEvery = 120 * time.Millisecond
)

// New makes a display whose lines begin with what is shown, unless that is empty. close must follow.
func New(env app.Env, quiet bool, what string) *Display {
	p := &Display{w: env.Stderr, Quiet: quiet, quit: make(chan struct{}), done: make(chan struct{})}
	if what != "" {
		p.head = "[" + human.Sanitize(what) + "]"
	}
	if f, ok := env.Stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) && env.Getenv("TERM") != "dumb" {
		p.tty = true
		p.colour = env.Getenv("NO_COLOR") == ""
	}
	if !p.tty || quiet {
		close(p.done)
		return p
	}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(statusEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.quit:
				return
			case <-tick.C:
				p.spin()
			}
		}
	}()
	return p
}

// Close takes the status line away. Lines may still be written.
func (p *Display) Close() {
	p.once.Do(func() {
		close(p.quit)
		<-p.done
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
		p.status = ""
	})
}

func (p *Display) spin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.since)
	if p.status == "" || took < statusAfter {
		return
	}
	width := 80
	if f, ok := p.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 10 {
			width = w
		}
	}
	line := []rune(fmt.Sprintf("%c %s (%s)", `|/-\`[p.frame%4], p.status, human.Duration(took.Truncate(time.Second))))
	if len(line) > width-1 {
		line = line[:width-1]
	}
	p.frame++
	p.shown = true
	fmt.Fprintf(p.w, "\r\x1b[K%s", string(line))
}

func (p *Display) erase() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// Doing sets what the status line says.
func (p *Display) Doing(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.since = human.Sanitize(fmt.Sprintf(format, args...)), time.Now()
}

// Refresh changes the text of the status line and keeps its start. due reports that,
// without a terminal, a line should be printed instead: one every so often.
func (p *Display) Refresh(text string, every time.Duration) (took time.Duration, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = human.Sanitize(text)
	took = time.Since(p.since)
	due = !p.tty && time.Since(p.mentioned) >= every && took >= every
	if due {
		p.mentioned = time.Now()
	}
	return took, due
}

// Terminal reports whether there is a status line.
func (p *Display) Terminal() bool { return p.tty }

// Say prints one line.
func (p *Display) Say(text string) { p.Line("", "", text) }

// Colours of the terminal, by what they say.
const (
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Line prints "[task 4f2a] [tag] text". Several tags are separated by "] [".
func (p *Display) Line(tag, colour, text string) {
	if p.Quiet {
		return
	}
	head := p.head
	if tag != "" {
		head = strings.TrimPrefix(head+" ["+tag+"]", " ")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintf(p.w, "%s %s\n", p.Paint(Dim, head), p.Paint(colour, human.Sanitize(text)))
}

// Waits says for what a sandbox waits.
func (p *Display) Waits(w api.WaitingEvent) {
	p.Line("wait", Yellow, "a sandbox "+human.Truncate(w.Words(), 300))
}

// Block prints indented lines below a line, even where it is quiet.
func (p *Display) Block(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	for _, l := range lines {
		fmt.Fprintf(p.w, "    %s\n", l)
	}
}

// Hint prints commands to run next, one a line, even where it is quiet.
func (p *Display) Hint(label string, commands ...string) {
	head := "  " + label + ": "
	for _, c := range commands {
		fmt.Fprintf(p.w, "%s%s\n", head, human.Sanitize(c))
		head = strings.Repeat(" ", len(head))
	}
}

// Paint colours a text where the terminal shows colours.
func (p *Display) Paint(colour, text string) string {
	if !p.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Always prints what even --quiet must not hide: why there is no result.
func (p *Display) Always(head, text string) {
	if text != "" {
		fmt.Fprintf(p.w, "hortus: %s%s\n", head, human.SanitizeAnswer(text))
	}
}
