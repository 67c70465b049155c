package program

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// MaxAnswer is how much is kept of what a program writes, in bytes.
const MaxAnswer = 64 << 10

// ErrMissing is the error of a program that is not installed.
var ErrMissing = errors.New("not installed")

// Find returns the path of the first of some programs that is there.
func Find(programs ...string) (string, error) {
	for _, p := range programs {
		if found, err := exec.LookPath(p); err == nil {
			return found, nil
		}
	}
	return "", ErrMissing
}

// Output runs a program of this host, and returns what it wrote. Its context is ctx.
func Output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second // a child that outlives it must not keep the pipes open
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", Failure(err, stderr.String())
	}
	return stdout.String(), nil
}

// Failure returns why a program of this host did not do its work: the last line of what it wrote, or err.
func Failure(err error, text string) error {
	if line := Last(text); line != "" {
		return errors.New("does not work here: " + line)
	}
	return errors.New("does not work here: " + err.Error())
}

// Last is the last line of a text, clipped.
func Last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return Clip(strings.TrimSpace(lines[len(lines)-1]), 200)
}

// Clip shortens a text.
func Clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Keep appends data up to MaxAnswer.
func Keep(b *bytes.Buffer, data []byte) { b.Write(data[:min(len(data), MaxAnswer-b.Len())]) }

// Talk is a program that answers lines by lines.
type Talk struct {
	send  func(ctx context.Context, line []byte) error
	read  func() (string, error)
	close func()
}

// Ask sends a line and returns the line that comes back.
func (t *Talk) Ask(ctx context.Context, line string) (string, error) {
	if err := t.send(ctx, []byte(line+"\n")); err != nil {
		return "", err
	}
	return t.read()
}

// Call is Ask with JSON.
func (t *Talk) Call(ctx context.Context, q, a any) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	answer, err := t.Ask(ctx, string(line))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(answer), a)
}

// Close ends the input of a program of this host, and waits for its end. One in a sandbox ends with that.
func (t *Talk) Close() { t.close() }

// Start starts a program of this host that ends with its input.
func Start(cmd *exec.Cmd) (*Talk, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	answers := bufio.NewReaderSize(out, MaxAnswer)
	end := func() { in.Close(); _ = cmd.Wait() } // how it ended is of no interest
	return &Talk{
		send: func(_ context.Context, line []byte) error { _, err := in.Write(line); return err },
		read: func() (string, error) {
			line, err := answers.ReadSlice('\n')
			if err != nil {
				end() // so that all of its complaint is there
				return "", api.Errorf(api.KindInternal, "%.40q did not answer: %w: %s", cmd.Args[0], err, Last(complaint.String()))
			}
			return string(line), nil
		},
		close: end,
	}, nil
}

// In starts a program in a sandbox.
func In(ctx context.Context, guest *envd.Client, argv []string, env map[string]string) (*Talk, error) {
	yes := true
	ps, err := guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: argv[0], Args: argv[1:], Envs: env}, Stdin: &yes}, envd.StartOptions{})
	if err != nil {
		return nil, err
	}
	ev, err := ps.Next()
	if err == nil && ev.Start == nil {
		err = api.Errorf(api.KindUnavailable, "the guest of a sandbox did not answer as agreed")
	}
	if err != nil {
		ps.Close()
		return nil, err
	}
	pid := ev.Start.PID
	var out, complaint bytes.Buffer
	return &Talk{
		send: func(ctx context.Context, line []byte) error {
			return guest.SendInput(ctx, envd.Selector{PID: &pid}, envd.ProcessInput{Stdin: line})
		},
		read: func() (string, error) {
			for {
				if i := bytes.IndexByte(out.Bytes(), '\n'); i >= 0 {
					return string(out.Next(i + 1)), nil
				}
				ev, err := ps.Next()
				switch {
				case errors.Is(err, io.EOF):
					return "", api.Errorf(api.KindInternal, "%.40q ended before it answered", argv[0])
				case err != nil:
					return "", err
				case ev.End != nil:
					return "", api.Errorf(api.KindInternal, "%.40q was to answer and ended with %d: %s", argv[0], ev.End.ExitCode, Last(complaint.String()))
				case ev.Data != nil:
					out.Write(ev.Data.Stdout)
					Keep(&complaint, ev.Data.Stderr)
				}
				if out.Len() > MaxAnswer {
					return "", api.Errorf(api.KindInternal, "%.40q was to answer a line and wrote %d bytes", argv[0], out.Len())
				}
			}
		},
		close: func() { ps.Close() },
	}, nil
}
