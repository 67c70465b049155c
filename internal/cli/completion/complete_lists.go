package completion

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/image"
	"hortus.dev/internal/cli/sandbox"
	"hortus.dev/internal/cli/task/view"
	"hortus.dev/internal/platform/config"
)

// daemon finds the daemon that runs. None is started for a list, and none is no
// error.
func (c *completer) daemon() (app.ConnectOptions, bool) {
	src := config.Source{Getenv: c.app.Getenv, UID: c.app.Env.UID, File: c.given["config"]}
	conf, err := config.Load(src)
	if err != nil {
		return app.ConnectOptions{}, false
	}
	opt := app.ConnectOptions{DataDir: conf.Get("data-dir").Text, MustRun: true}
	if d := c.given["data-dir"]; d != "" {
		opt.DataDir = d
	}
	return opt, opt.DataDir != ""
}

// ask connects for one list, within the time that anybody waits for it.
func (c *completer) ask(ctx context.Context, list func(context.Context, *client.Client) error) {
	opt, ok := c.daemon()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completeWait)
	defer cancel()
	conn, err := c.app.Connect(ctx, opt)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = list(ctx, conn) // a list that cannot be had completes nothing
}

func (c *completer) sandboxes(ctx context.Context, out []string, cur, after string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Sandboxes.List(ctx, false)
		for _, s := range list {
			out = add(out, string(s.ID)+after, fmt.Sprintf("%s, %s, %s left", s.State, s.Isolation, human.Duration(time.Until(s.ExpiresAt))), cur)
		}
		return err
	})
	return out
}

func (c *completer) tasks(ctx context.Context, out []string, cur string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Tasks.List(ctx, 50)
		for _, t := range list {
			state := t.State
			if t.State == api.TaskDone {
				state = api.TaskState(t.Outcome)
			}
			out = add(out, string(t.ID), fmt.Sprintf("%s: %s", state, human.Truncate(view.RequestOf(t), 60)), cur)
		}
		return err
	})
	return out
}

// repositories completes the names of connected repositories.
func (c *completer) repositories(ctx context.Context, out []string, cur, prefix string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Repositories.List(ctx)
		for _, r := range list {
			out = add(out, prefix+r.Name, fmt.Sprintf("%s, %s", r.State, human.Truncate(r.URL, 60)), prefix+cur)
		}
		return err
	})
	return out
}

// snapshots completes the ids of snapshots.
func (c *completer) snapshots(ctx context.Context, out []string, cur, prefix string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Snapshots.List(ctx, false)
		for _, s := range list {
			about := fmt.Sprintf("%s, %s, %s", s.State, sandbox.KindText(s.Kind), human.Size(s.Bytes))
			if s.Name != "" {
				about = "template " + s.Name + ", " + about
			}
			out = add(out, prefix+string(s.ID), about, prefix+cur)
		}
		return err
	})
	return out
}

// secrets completes the names of secrets.
func (c *completer) secrets(ctx context.Context, out []string, cur string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Secrets.List(ctx)
		for _, s := range list {
			out = add(out, s.Name, fmt.Sprintf("%s, set %s ago", s.Source, human.Duration(time.Since(s.UpdatedAt))), cur)
		}
		return err
	})
	return out
}

// documents completes the names of stored documents.
func (c *completer) documents(ctx context.Context, out []string, cur string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Documents.List(ctx, "")
		for _, d := range list {
			out = add(out, d.Name, d.Title, cur)
		}
		return err
	})
	return out
}

// lessons completes identifiers of lessons.
func (c *completer) lessons(ctx context.Context, out []string, cur string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Lessons.List(ctx, "")
		for _, l := range list {
			out = add(out, l.ID, l.Failure[strings.LastIndexByte(l.Failure, '\n')+1:], cur)
		}
		return err
	})
	return out
}

// workspaces completes names, and IDs of those without one.
func (c *completer) sessions(ctx context.Context, out []string, cur string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Sessions.List(ctx, false)
		for _, s := range list {
			out = add(out, s.Key, fmt.Sprintf("%s, %d turns, used %s ago", s.State, s.TurnCount, human.Duration(time.Since(s.UsedAt))), cur)
		}
		return err
	})
	return out
}

func (c *completer) workspaces(ctx context.Context, out []string, cur, prefix string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Workspaces.List(ctx)
		for _, w := range list {
			about := fmt.Sprintf("%s, %s old", w.State, human.Duration(time.Since(w.CreatedAt)))
			if w.Task != "" {
				about += ", of task " + string(w.Task)
			}
			out = add(out, prefix+cmp.Or(w.Name, string(w.ID)), about, prefix+cur)
		}
		return err
	})
	return out
}

// templates completes what a sandbox can start from: names, and ids where one is
// begun.
func (c *completer) templates(ctx context.Context, out []string, cur, prefix string) []string {
	out = slices.DeleteFunc(out, func(s string) bool { return s == prefix+api.HostTemplate })
	out = add(out, prefix+api.HostTemplate, "this machine's own tools", prefix+cur)
	out = c.warm(ctx, out, cur, prefix)
	if cur != "" {
		out = c.snapshots(ctx, out, cur, prefix)
		out = c.unnamed(ctx, out, cur, prefix)
	}
	return out
}

// images completes the references of images that the daemon has.
func (c *completer) images(ctx context.Context, out []string, cur, prefix string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Images.List(ctx)
		seen := map[string]bool{}
		for _, img := range list {
			if ref := image.Short(img.Reference); !seen[ref] {
				seen[ref] = true
				out = add(out, prefix+ref, describe(img), prefix+cur)
			}
		}
		return err
	})
	return out
}

// unnamed completes the IDs of images that have no name.
func (c *completer) unnamed(ctx context.Context, out []string, cur, prefix string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Images.List(ctx)
		for _, img := range list {
			if img.Name == "" {
				out = add(out, prefix+img.ID, describe(img), prefix+cur)
			}
		}
		return err
	})
	return out
}

func describe(img api.Image) string {
	return fmt.Sprintf("image %s, %s", human.Truncate(image.Short(img.Reference), 60), human.Size(img.Bytes))
}

// warm completes the names of templates, but for the host's.
func (c *completer) warm(ctx context.Context, out []string, cur, prefix string) []string {
	c.ask(ctx, func(ctx context.Context, conn *client.Client) error {
		list, err := conn.Templates.List(ctx)
		for _, t := range list {
			if img := t.Image; img != nil {
				out = add(out, prefix+t.Name, describe(*img), prefix+cur)
			}
			if s := t.Snapshot; s != nil {
				out = add(out, prefix+t.Name, fmt.Sprintf("%s, %s, %s", sandbox.KindText(s.Kind), s.Image.Backend, human.Size(s.Bytes)), prefix+cur)
			}
		}
		return err
	})
	return out
}
