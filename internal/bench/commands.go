package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// path is where every command of a measurement looks for programs, in sandboxes and
// on the host: what is compared must be the same program.
const path = "/usr/local/bin:/usr/bin:/bin"

// maxAnswer is how much is kept of what a command writes, in bytes.
const maxAnswer = 64 << 10

// python requests a program of Python's, without what a user's directories add.
func python(program string, args ...string) []string {
	return append([]string{"python3", "-I", "-c", program}, args...)
}

// in runs a command in a sandbox to its end and gives what it wrote. It must
// succeed. A context that ends takes the sandbox with it: nobody waits for a command
// of minutes.
func (b *Bench) in(ctx context.Context, id api.SandboxID, argv []string) (string, error) {
	out, _, err := b.until(ctx, id, argv, "")
	return out, err
}

// until runs a command up to the line that it is to write, or to its end where that
// is empty. Past the line the command continues by itself.
func (b *Bench) until(ctx context.Context, id api.SandboxID, argv []string, line string) (string, bool, error) {
	return b.command(ctx, id, api.ExecRequest{Args: argv, Env: map[string]string{"PATH": path}}, line)
}

func (b *Bench) command(ctx context.Context, id api.SandboxID, req api.ExecRequest, line string) (string, bool, error) {
	argv := req.Args
	stop := context.AfterFunc(ctx, func() { _ = b.destroy(ctx, id) })
	defer stop()
	s, err := b.Sandboxes.StartExec(ctx, id, req)
	if err != nil {
		return "", false, err
	}
	defer s.Close()
	var out, complaint bytes.Buffer
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return "", false, err
		}
		if ev.Data == nil {
			continue
		}
		keep(&out, ev.Data.Stdout)
		keep(&complaint, ev.Data.Stderr)
		if line != "" && strings.Contains("\n"+out.String(), "\n"+line+"\n") {
			return out.String(), true, nil
		}
	}
	if x := s.Exec(); x.State != api.ExecExited || x.Exit.Code != 0 {
		return "", false, api.Errorf(api.KindInternal, "sandbox %s: %.40q ended with %d %s: %s", id, argv[0], x.Exit.Code, x.Exit.Cause, last(complaint.String()))
	}
	if line != "" {
		return "", false, api.Errorf(api.KindInternal, "sandbox %s: %.40q ended before it said %q", id, argv[0], line)
	}
	return out.String(), false, nil
}

func keep(b *bytes.Buffer, data []byte) { b.Write(data[:min(len(data), maxAnswer-b.Len())]) }

// last is the last line of a text, clipped.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return clip(strings.TrimSpace(lines[len(lines)-1]), 200)
}

// talk is a program in a sandbox that answers lines by lines.
type talk struct {
	guest  *envd.Client
	stream *envd.ProcessStream
	pid    uint32
	rest   string
}

// talkTo starts one. It ends with its sandbox, or with its input.
func (b *Bench) talkTo(ctx context.Context, id api.SandboxID, argv []string) (*talk, error) {
	guest, err := b.Sandboxes.Client(ctx, id)
	if err != nil {
		return nil, err
	}
	yes := true
	ps, err := guest.Start(ctx, &envd.StartRequest{
		Process: &envd.ProcessConfig{Cmd: argv[0], Args: argv[1:], Envs: map[string]string{"PATH": path}}, Stdin: &yes,
	}, envd.StartOptions{})
	if err != nil {
		return nil, err
	}
	t := &talk{guest: guest, stream: ps}
	ev, err := ps.Next()
	if err == nil && ev.Start == nil {
		err = api.Errorf(api.KindUnavailable, "sandbox %s: its guest did not answer as agreed", id)
	}
	if err != nil {
		ps.Close()
		return nil, err
	}
	t.pid = ev.Start.PID
	return t, nil
}

// ask sends a line and gives the line that comes back.
func (t *talk) ask(ctx context.Context, line string) (string, error) {
	if err := t.guest.SendInput(ctx, envd.Selector{PID: &t.pid}, envd.ProcessInput{Stdin: []byte(line + "\n")}); err != nil {
		return "", err
	}
	var complaint bytes.Buffer
	for {
		if answer, rest, ok := strings.Cut(t.rest, "\n"); ok {
			t.rest = rest
			return answer, nil
		}
		ev, err := t.stream.Next()
		switch {
		case err != nil:
			return "", err
		case ev.End != nil:
			return "", api.Errorf(api.KindInternal, "a program that was to answer ended with %d: %s", ev.End.ExitCode, last(complaint.String()))
		case ev.Data != nil:
			t.rest += string(ev.Data.Stdout)
			keep(&complaint, ev.Data.Stderr)
		}
		if len(t.rest) > maxAnswer {
			return "", api.Errorf(api.KindInternal, "a program that was to answer a line wrote %d bytes", len(t.rest))
		}
	}
}

func (t *talk) close() { t.stream.Close() }
