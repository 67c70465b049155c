package manager

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// shellTail is how much output of a command that failed is shown, in bytes.
const shellTail = 2 << 10

// shell runs a shell command, which must succeed. what names it in errors. cancel, which ends the sandbox, is
// called if ctx ends while the command runs.
func (g *Guests) shell(ctx context.Context, id api.SandboxID, what, command string, timeout time.Duration, cancel func()) error {
	output, x, err := g.output(ctx, id, api.ExecRequest{Args: []string{"sh", "-c", command}, TimeoutMS: timeout.Milliseconds()}, cancel)
	if err != nil {
		return fmt.Errorf("the %s %.200q: %w", what, command, err)
	}
	if x.Code != 0 {
		how := fmt.Sprintf("exit code %d", x.Code)
		if x.Cause != "" {
			how += ", " + x.Cause
		}
		return api.Errorf(api.KindConflict, "the %s %.200q failed (%s): %q", what, command, how, output)
	}
	return nil
}

// output runs a command to its end, and returns the last bytes of its output.
func (g *Guests) output(ctx context.Context, id api.SandboxID, req api.ExecRequest, cancel func()) ([]byte, api.Exit, error) {
	s, err := g.StartExec(ctx, id, req)
	if err != nil {
		return nil, api.Exit{}, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	var tail []byte
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return tail, s.Exec().Exit, nil
		}
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, api.Exit{}, err
		}
		if ev.Data != nil {
			tail = append(append(tail, ev.Data.Stdout...), ev.Data.Stderr...)
			tail = tail[max(0, len(tail)-shellTail):]
		}
	}
}

const (
	// listScript prints the listening sockets of a sandbox, and the descriptors of the processes of
	// its user, who alone may see them.
	listScript = `cat /proc/net/tcp /proc/net/tcp6; for p in /proc/[0-9]*; do echo "process ${p#/proc/} $(cat $p/comm)"; ls -l $p/fd; done`
	// listTimeout bounds it, maxListing its output, maxListeners what is kept of it.
	listTimeout  = 10 * time.Second
	maxListing   = 1 << 20
	maxListeners = 64
)

// listeners returns the processes of a sandbox that accept connections, apart from its guest.
func (g *Guests) listeners(ctx context.Context, in *instance) ([]api.Listener, error) {
	var all []api.Listener
	if _, err := g.table.running(ctx, in.id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*listTimeout)
	defer cancel()
	for _, user := range in.Row().Identities {
		b, err := listing(ctx, in.commands.Guest(), user)
		if err != nil {
			return nil, err
		}
		all = append(all, parseListeners(b)...)
	}
	slices.SortFunc(all, func(a, b api.Listener) int { return cmp.Or(a.Port-b.Port, a.PID-b.PID) })
	all = slices.Compact(all)
	return all[:min(len(all), maxListeners)], nil
}

// listing returns the last bytes that listScript prints for a user. It has no record: it is no command of
// the sandbox's owner.
func listing(ctx context.Context, guest *envd.Client, user string) ([]byte, error) {
	s, err := guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "sh", Args: []string{"-c", listScript}}},
		envd.StartOptions{User: user, ExecID: string(api.NewExecID()), Timeout: listTimeout})
	if err != nil {
		return nil, envd.APIError(err)
	}
	defer s.Close()
	var tail []byte
	for {
		ev, err := s.Next()
		switch {
		case err != nil:
			return nil, envd.APIError(err)
		case ev.End != nil:
			return tail, nil
		case ev.Data != nil:
			tail = append(tail, ev.Data.Stdout...)
			tail = tail[max(0, len(tail)-maxListing):]
		}
	}
}

// parseListeners parses the output of listScript, which may be anything.
func parseListeners(b []byte) (all []api.Listener) {
	ports := map[string]int{} // of sockets, by their inode
	var now api.Listener
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		line := sc.Text()
		if rest, ok := strings.CutPrefix(line, "process "); ok {
			pid, command, _ := strings.Cut(rest, " ")
			now = api.Listener{Command: strings.ToValidUTF8(command, "?")}
			now.PID, _ = strconv.Atoi(pid)
			continue
		}
		if _, inode, ok := strings.Cut(line, "socket:["); ok {
			if port := ports[strings.TrimSuffix(inode, "]")]; port > 0 && now.PID > 0 {
				now.Port = port
				all = append(all, now)
			}
			continue
		}
		// sl, local address, remote address, state, queues, timers, retransmits, uid, timeout, inode
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" {
			continue
		}
		if _, hex, ok := strings.Cut(f[1], ":"); ok {
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				ports[f[9]] = int(port)
			}
		}
	}
	return all
}
