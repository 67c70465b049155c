package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"hortus.dev/client"
	"hortus.dev/internal/egress/check/probe"
)

// probeSandbox is a sandbox with a probe.
type probeSandbox struct {
	sandbox *client.Sandbox
	port    int // of the probe
	timeout time.Duration
}

// probePath is where the probe is written.
const probePath = "/tmp/" + probe.Argv0

// start writes the probe and starts it, as root of the sandbox where there is one: that is the
// strongest attacker that a client can make.
func (b *probeSandbox) start(ctx context.Context, exe []byte) error {
	if err := b.sandbox.WriteFile(ctx, "", probePath, bytes.NewReader(exe)); err != nil {
		return fmt.Errorf("write the probe: %w", err)
	}
	if out, err := b.sandbox.Command(ctx, "chmod", "755", probePath).CombinedOutput(); err != nil {
		return fmt.Errorf("chmod the probe: %w: %s", err, out)
	}
	var errs []error
	for _, user := range []string{"root", ""} {
		cmd := b.sandbox.Command(ctx, probePath)
		cmd.User = user
		out, err := cmd.Output()
		if err == nil {
			b.port, err = strconv.Atoi(strings.TrimSpace(string(out)))
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("start the probe: %w", errors.Join(errs...))
}

// alive waits until the probe answers.
func (b *probeSandbox) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	for {
		_, c, err := b.call(ctx, probe.Request{Op: "none"})
		if err == nil {
			c.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the probe does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// call sends a request to the probe. The stream has to be closed. An error is one of the way to
// the probe; what the probe has to say is in the answer.
func (b *probeSandbox) call(ctx context.Context, q probe.Request) (probe.Answer, net.Conn, error) {
	var a probe.Answer
	c, err := b.dial(ctx)
	if err != nil {
		return a, nil, fmt.Errorf("reach the probe: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := errors.Join(probe.WriteLine(c, q), probe.ReadLine(c, &a)); err != nil {
		c.Close()
		return a, nil, fmt.Errorf("ask the probe: %w", errors.Join(err, ctx.Err()))
	}
	return a, c, nil
}

// attempt is the maximum time of one attempt to reach the probe.
const attempt = 3 * time.Second

// dial opens a stream to the probe. It tries again: in gVisor a connection inside a sandbox that
// was just restored may get no answer.
func (b *probeSandbox) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	for {
		actx, cancel := context.WithTimeout(ctx, attempt)
		c, err := b.sandbox.Dial(actx, b.port)
		timeout := actx.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !timeout {
			return c, err
		}
	}
}
