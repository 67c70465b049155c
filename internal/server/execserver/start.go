package execserver

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"hortus.dev/api"
)

type startParams struct {
	ProcessID string            `json:"processId"`
	Argv      []string          `json:"argv"`
	CWD       string            `json:"cwd"`
	EnvPolicy *policy           `json:"envPolicy"`
	Env       map[string]string `json:"env"`
	TTY       bool              `json:"tty"`
	PipeStdin bool              `json:"pipeStdin"`
	Arg0      *string           `json:"arg0"`
	confinement
	EnforceManagedNetwork json.RawMessage `json:"enforceManagedNetwork"`
	ManagedNetwork        json.RawMessage `json:"managedNetwork"`
	NetworkProxy          json.RawMessage `json:"networkProxy"`
}

// check refuses what cannot be done as it was asked for.
func (in *startParams) check() error {
	if err := nameOf("processId", in.ProcessID); err != nil {
		return err
	}
	if len(in.Argv) == 0 || in.Argv[0] == "" {
		return api.Errorf(api.KindInvalid, "argv must not be empty")
	}
	if in.Arg0 != nil && *in.Arg0 != in.Argv[0] {
		return api.Errorf(api.KindUnsupported, "this server cannot run a program under another name (arg0)")
	}
	if err := in.confinement.check(); err != nil {
		return err
	}
	for _, r := range []struct {
		name  string
		value json.RawMessage
	}{{"enforceManagedNetwork", in.EnforceManagedNetwork}, {"managedNetwork", in.ManagedNetwork}, {"networkProxy", in.NetworkProxy}} {
		if err := refuseValue(r.name, r.value); err != nil {
			return err
		}
	}
	return nil
}

// startAnswer is the answer to process/start. The output is sent after it.
type startAnswer struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType"`
	begin       func()
}

func (a startAnswer) answered() { a.begin() }

func (s *session) startProcess(ctx context.Context, in startParams) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	dir, err := pathOf(in.CWD)
	if err != nil {
		return nil, err
	}
	env, unset, err := in.EnvPolicy.apply(s.env.vars, in.Env)
	if err != nil {
		return nil, err
	}
	args := in.Argv
	if len(unset) > 0 {
		if strings.Contains(in.Argv[0], "=") {
			return nil, api.Errorf(api.KindUnsupported, "the name of a program has a =, and envPolicy takes variables away: this server cannot do both")
		}
		args = []string{"env"}
		for _, name := range unset {
			args = append(args, "-u", name)
		}
		args = append(append(args, "--"), in.Argv...)
	}
	p := &process{name: in.ProcessID, changed: make(chan struct{}), done: make(chan struct{})}
	if in.TTY || in.PipeStdin {
		p.input = make(chan []byte, maxInput/(4<<10))
	}
	if err := s.processes.add(p); err != nil {
		return nil, err
	}
	out, errs := &stream{s, p, "stdout"}, &stream{s, p, "stderr"}
	if in.TTY {
		out.name = "pty"
	}
	// The process lives as long as the session; only its start is as long as this request.
	life, end := context.WithCancel(s.life)
	hurry := context.AfterFunc(ctx, end)
	proc, err := s.cfg.Sandbox.Start(life, Command{
		Args: args, Dir: dir, Env: env, Terminal: in.TTY, Input: p.input != nil, Stdout: out, Stderr: errs,
	})
	hurry()
	if err != nil {
		end()
		s.processes.drop(p)
		return nil, err
	}
	p.mu.Lock()
	p.proc = proc
	p.mu.Unlock()
	answered := make(chan struct{})
	s.processes.work.Go(func() {
		defer end()
		select {
		case <-answered:
		case <-s.ctx.Done():
		}
		s.follow(p, proc)
	})
	if p.input != nil {
		s.processes.work.Go(func() { p.feed(proc) })
	}
	return startAnswer{in.ProcessID, "none", sync.OnceFunc(func() { close(answered) })}, nil
}
