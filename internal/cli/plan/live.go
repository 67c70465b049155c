package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// live draws the table of a plan on a terminal again and again, with what the agents do now.
type live struct {
	app    *app.App
	client *client.Client
	id     api.PlanID

	mu   sync.Mutex
	said map[string]string // by item
	// lines is the height of the table that is on the screen.
	lines int
}

func newLive(a *app.App, c *client.Client, id api.PlanID) *live {
	return &live{app: a, client: c, id: id, said: map[string]string{}}
}

// redrawEvery is how often the times in the table change.
const redrawEvery = time.Second

// follow draws the table until the plan ends, and removes it.
func (l *live) follow(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	defer watched.Wait()
	defer stop()
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	ended := make(chan error, 1)
	watched.Go(func() { ended <- l.events(ctx, notify) })
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	tasks := map[api.TaskID]bool{}
	for {
		p, err := l.client.Plans.Get(ctx, l.id)
		if err != nil {
			return err
		}
		for _, it := range p.Items {
			if t := it.Last(); t != nil && it.Phase == words.Works && !tasks[t.Task] {
				tasks[t.Task] = true
				watched.Go(func() { l.listen(ctx, it.ID, t.Task, notify) })
			}
		}
		l.draw(p)
		select {
		case err := <-ended:
			l.erase()
			return err
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// events notifies of each event of the plan, until it ends.
func (l *live) events(ctx context.Context, notify func()) error {
	var last int64
	for {
		done := false
		for e, err := range l.client.Plans.Events(ctx, l.id, last) {
			if err != nil {
				return err
			}
			last, done = e.Seq, e.Type == words.EventFinished
			notify()
		}
		if !done {
			return ctx.Err()
		}
		if p, err := l.client.Plans.Get(ctx, l.id); err != nil || p.State == words.Done {
			return err
		}
	}
}

// listen keeps what the agent of an item did last.
func (l *live) listen(ctx context.Context, item string, task api.TaskID, notify func()) {
	for e, err := range l.client.Tasks.Events(ctx, task, 0) {
		if err != nil {
			return
		}
		text := ""
		switch e.Type {
		case api.EventSay:
			var v api.SayEvent
			if json.Unmarshal(e.Data, &v) == nil {
				text = v.Text
			}
		case api.EventTool:
			var v api.ToolEvent
			if json.Unmarshal(e.Data, &v) == nil {
				text = v.Tool + " " + v.Input
			}
		case api.EventRepoStep:
			var v api.RepoStepEvent
			if json.Unmarshal(e.Data, &v) == nil && !v.Done {
				text = v.Step
			}
		}
		if text = strings.TrimSpace(text); text != "" {
			l.mu.Lock()
			l.said[item] = text
			l.mu.Unlock()
			notify()
		}
	}
}

// draw replaces the table on the screen.
func (l *live) draw(p words.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	fmt.Fprintf(&b, "Plan %s: %s%s\n", p.ID, stateOf(p), map[bool]string{true: ": " + human.Sanitize(p.Why)}[p.Why != ""])
	table(&b, p, l.said)
	width, height := 80, 24
	if f, ok := l.app.Env.Stderr.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 10 && h > 3 {
			width, height = w, h
		}
	}
	all := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(all) > height-1 { // what does not fit cannot be replaced
		all = append(all[:height-2], fmt.Sprintf("... %d more: hortus plan show %s", len(all)-height+2, p.ID))
	}
	var out strings.Builder
	out.WriteString(l.up())
	for _, line := range all {
		if r := []rune(line); len(r) > width-1 {
			line = string(r[:width-1])
		}
		out.WriteString(line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	l.lines = len(all)
	fmt.Fprint(l.app.Env.Stderr, out.String())
}

// up moves to the first line of the table.
func (l *live) up() string {
	if l.lines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", l.lines)
}

// say replaces the table with a line of text; the next table is below it.
func (l *live) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.app.Env.Stderr, "%s\x1b[J%s\n", l.up(), human.Sanitize(text))
	l.lines = 0
}

// erase removes the table: the last one is printed on stdout.
func (l *live) erase() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprint(l.app.Env.Stderr, l.up()+"\x1b[J")
	l.lines = 0
}
