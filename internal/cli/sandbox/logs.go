package sandbox

import (
	"context"
	"errors"
	"io"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type sandboxLogsCmd struct {
	oneSandbox
	Exec   string `arg:"" optional:"" help:"Command ID, or a unique prefix of it (default: the newest command)."`
	Follow bool   `short:"f" help:"Follow the output until the command ends."`
}

// Run prints what the guest has kept of a command's output.
func (c *sandboxLogsCmd) Run(ctx app.Context, a *app.App) error {
	s, err := find(ctx, a, c.ID)
	if err != nil {
		return err
	}
	defer s.Close()
	execs, err := s.Execs(ctx)
	if err != nil {
		return err
	}
	x, err := findExec(execs, c.Exec)
	if err != nil {
		return err
	}
	var stdout, stderr limitBuffer
	out, errOut := a.Env.Stdout, a.Env.Stderr
	if a.Flags.JSON {
		out, errOut = &stdout, &stderr
	}
	dropped, err := output(ctx, s, x, c.Follow, out, errOut)
	if err != nil {
		return withNext(ctx, s, err)
	}
	if dropped > 0 {
		a.Note("hortus: the first %s are no longer stored", human.Size(dropped))
	}
	if a.Flags.JSON {
		return a.JSON(struct {
			Exec    api.Exec `json:"exec"`
			Stdout  []byte   `json:"stdout"`
			Stderr  []byte   `json:"stderr"`
			Dropped int64    `json:"dropped,omitempty"`
		}{x, stdout.Bytes(), stderr.Bytes(), dropped})
	}
	return nil
}

// findExec finds a command by the beginning of its id, with or without the
// leading letter; the newest when none is named.
func findExec(execs []api.Exec, prefix string) (api.Exec, error) {
	var found []api.Exec
	for _, x := range execs {
		id := string(x.ID)
		if strings.HasPrefix(id, prefix) || strings.HasPrefix(strings.TrimPrefix(id, "x"), prefix) {
			found = append(found, x)
		}
	}
	switch {
	case len(found) == 0 && prefix == "":
		return api.Exec{}, api.Errorf(api.KindNotFound, "no command has run in this sandbox yet")
	case len(found) == 0:
		return api.Exec{}, api.Errorf(api.KindNotFound, "unknown command %.40q in this sandbox", prefix)
	case len(found) > 1 && prefix != "":
		return api.Exec{}, api.Errorf(api.KindInvalid, "%d commands begin with %.40q", len(found), prefix)
	}
	last := found[0]
	for _, x := range found {
		if x.StartedAt.After(last.StartedAt) {
			last = x
		}
	}
	return last, nil
}

// output copies a command's kept output: to its end when follow is set or it has
// ended, else to what the daemon had received when it was asked. dropped counts
// the bytes at the beginning that are not kept any more.
func output(ctx context.Context, s *client.Sandbox, x api.Exec, follow bool, stdout, stderr io.Writer) (dropped int64, err error) {
	if !follow && x.State == api.ExecRunning && x.OutputBytes == 0 {
		return 0, nil
	}
	stream, err := s.Guest().Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(x.ID)})
	if err != nil {
		return 0, guestError(err)
	}
	defer stream.Close()
	for at := int64(0); ; {
		ev, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			return dropped, nil
		case err != nil:
			return dropped, guestError(err)
		case ev.Start != nil:
			dropped, at = ev.Start.Offset, ev.Start.Offset
		case ev.End != nil:
			return dropped, nil
		case ev.Data != nil:
			at += int64(len(ev.Data.Stdout) + len(ev.Data.Stderr) + len(ev.Data.PTY))
			for _, o := range []struct {
				w io.Writer
				p []byte
			}{{stdout, ev.Data.Stdout}, {stdout, ev.Data.PTY}, {stderr, ev.Data.Stderr}} {
				if _, err := o.w.Write(o.p); err != nil {
					return dropped, err
				}
			}
			if !follow && x.State == api.ExecRunning && at >= x.OutputBytes {
				return dropped, nil
			}
		}
	}
}

// guestError turns an error of the guest's wire into one of the api's.
func guestError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		return e.API()
	}
	return err
}
