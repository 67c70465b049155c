package external

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/agent/acp"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/opencode"
	"hortus.dev/internal/agent/runtime"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/repo"
)

// Times and bounds of a server.
const (
	// wakeTimeout is how long the server of an earlier turn has to answer, before another one is started.
	wakeTimeout = 30 * time.Second
	// portPoll is how often the output of a server is looked at for its port.
	portPoll = 50 * time.Millisecond
	// maxStart is how much of its output is looked at, in bytes.
	maxStart = 64 << 10
	// endWait is how long the record of a server that does not listen is waited for.
	endWait = 2 * time.Second
	maxNote = 4 << 10
)

// note is what is kept of a server in the sandbox where it runs, outside of the workspace: it is there as long as the sandbox
// is. The sandbox can change it; all of it is about the sandbox.
type note struct {
	Port     int    `json:"port"`
	Password string `json:"password"`
}

// noteAt is the file with the note.
func (r *round) noteAt() string { return "/tmp/hortus-" + r.runtime.Name + ".json" }

// serverTurn says the message to the server of the agent, which stays for later rounds and turns in the same sandbox.
func (r *round) serverTurn(ctx context.Context, message string) (acp.Turn, error) {
	starting, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	client, err := r.connect(starting)
	if err != nil {
		return acp.Turn{}, r.slow(ctx, starting, err)
	}
	defer client.Close()
	turn, err := r.ask(ctx, &server{r, client}, message)
	if err != nil && ctx.Err() == nil && ended(ctx, client, err) {
		err = r.stopped(err)
	}
	return turn, err
}

// ended reports whether an error is one because the server has ended.
func ended(ctx context.Context, client *opencode.Client, err error) bool {
	if errors.Is(err, errGone) || api.KindOf(err) != api.KindUnavailable {
		return errors.Is(err, errGone)
	}
	look, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	_, err = client.Ready(look)
	return errors.Is(err, errGone)
}

// connect connects with the server that is in the sandbox, or starts one.
func (r *round) connect(ctx context.Context) (*opencode.Client, error) {
	if n, ok := r.noted(ctx); ok {
		c := r.client(n)
		wake, cancel := context.WithTimeout(ctx, wakeTimeout)
		_, err := c.Ready(wake)
		cancel()
		if err == nil {
			return c, nil
		}
		c.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return r.launched(ctx)
}

// noted reads the note of the sandbox; false if it has none.
func (r *round) noted(ctx context.Context) (n note, ok bool) {
	b, err := r.desk.Sandbox.ReadFile(ctx, r.noteAt(), maxNote)
	if err != nil || json.Unmarshal(b, &n) != nil {
		return note{}, false
	}
	return n, n.Port > 0 && n.Port <= 65535
}

// client makes a client of a server in the current sandbox.
func (r *round) client(n note) *opencode.Client {
	return opencode.New(opencode.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			c, err := r.desk.Sandbox.Dial(ctx, n.Port)
			switch api.KindOf(err) {
			case api.KindUnavailable, api.KindNotFound, api.KindUnsupported:
				err = gone{err}
			}
			return c, err
		},
		Gone:     func(err error) bool { return errors.Is(err, errGone) },
		Password: n.Password, Update: r.update, Grace: r.grace,
	})
}

// gone is the error of a connection that cannot be made: the server or its sandbox has ended.
type gone struct{ error }

var errGone = errors.New("the server has ended")

// Is reports whether target is errGone.
func (gone) Is(target error) bool { return target == errGone }

// Unwrap returns the reason.
func (g gone) Unwrap() error { return g.error }

// launched starts a server with a password of its own, and connects with it.
func (r *round) launched(ctx context.Context) (_ *opencode.Client, err error) {
	if r.job != nil {
		r.job.Close() // it does not answer
		r.job = nil
	}
	n := note{Password: rand.Text()}
	env := maps.Clone(r.launch.Env)
	env[runtime.Password] = n.Password
	job, err := r.desk.Sandbox.Start(ctx, api.ExecRequest{Args: r.launch.Args, Env: env, Dir: repo.Workspace})
	if err != nil {
		return nil, unreached(err)
	}
	r.job = job
	defer func() {
		if err != nil {
			job.Close()
			r.job = nil
		}
	}()
	if n.Port, err = port(ctx, job); err != nil {
		if ctx.Err() == nil {
			err = r.stopped(err)
		}
		return nil, err
	}
	c := r.client(n)
	_, err = c.Ready(ctx)
	if err == nil {
		var b []byte
		if b, err = json.Marshal(n); err == nil {
			err = r.desk.Sandbox.WriteFile(ctx, r.noteAt(), b, false)
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// port waits until a server says where it listens.
func port(ctx context.Context, job tool.Job) (int, error) {
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	for {
		said, _, ended := job.Output(0, maxStart)
		if n := listens(said); n > 0 {
			return n, nil
		}
		switch {
		case ended:
			return 0, api.Errorf(api.KindUnavailable, "it ended before it listened")
		case len(said) >= maxStart:
			return 0, api.Errorf(api.KindInvalid, "it did not say its port in the first %d bytes", maxStart)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// listens returns the port that a server says; 0 for none yet.
func listens(said []byte) int {
	const before = "listening on http://127.0.0.1:"
	for line := range bytes.Lines(said) {
		_, text, ok := bytes.Cut(line, []byte(before))
		if !ok || !bytes.HasSuffix(text, []byte("\n")) {
			continue
		}
		if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && n > 0 && n <= 65535 {
			return n
		}
	}
	return 0
}

// stopped describes the end of a server that ended by itself. Of one that an earlier turn started, only why is known.
func (r *round) stopped(why error) error {
	if errors.Is(why, errGone) && !errors.Is(why, envd.ErrPortClosed) {
		if err := unreached(why); errors.As(err, &lost{}) {
			return err
		}
	}
	how, said := "", ""
	if r.job != nil {
		late, cancel := context.WithTimeout(context.Background(), endWait)
		defer cancel()
		if r.job.Wait(late) == nil {
			x := r.job.Exec()
			if beneath(x) {
				return r.fell(x)
			}
			how = cmp.Or(x.Exit.Cause, fmt.Sprintf("exit code %d", x.Exit.Code)) + "; "
		}
		p, _, _ := r.job.Output(0, maxStart)
		if said = loop.ShortLine(lastLines(string(p))); said != "" {
			said = ": " + said
		}
	}
	return api.Errorf(api.KindUnavailable, "the agent %s stopped (%s%w)%s", r.runtime.Label(), how, why, said)
}

// server is an agent that is a server.
type server struct {
	*round
	client *opencode.Client
}

// open implements agent.
func (s *server) open(ctx context.Context) (session string, begins bool, err error) {
	if s.session == "" {
		session, err = s.client.NewSession(ctx)
		return session, true, err
	}
	session = s.session
	if err = s.client.FindSession(ctx, session); (s.earlier || s.again && s.worker.round == 1) && api.KindOf(err) == api.KindNotFound {
		session, err = s.client.NewSession(ctx)
		begins = true
	}
	s.earlier = s.earlier && err != nil
	return session, begins, err
}

// prompt implements agent.
func (s *server) prompt(ctx context.Context, message string) (acp.Turn, error) {
	return s.client.Prompt(ctx, s.session, message)
}
