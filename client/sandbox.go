package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Sandbox is a handle of one sandbox. Closing it closes connections; only Kill
// or the deadline end the sandbox.
type Sandbox struct {
	client *Client
	id     api.SandboxID
	guest  *envd.Client
}

// SandboxService makes, finds and lists sandboxes.
type SandboxService struct{ service }

// Create makes a sandbox and returns when its guest answers. If it waits for capacity of the host, the function of
// api.WithWaitTold hears for what; the same holds for [Sandbox.Fork] and [Sandbox.Resume].
func (s *SandboxService) Create(ctx context.Context, req api.CreateSandbox) (*Sandbox, error) {
	var row api.Sandbox
	if err := s.client.call(ctx, http.MethodPost, "/v1/sandboxes", req, &row); err != nil {
		return nil, err
	}
	return s.client.handle(row.ID), nil
}

// Get returns a handle of a sandbox by its identifier or a unique beginning of
// it. It fails with KindNotFound when there is none.
func (s *SandboxService) Get(ctx context.Context, id string) (*Sandbox, error) {
	seg, err := segment(id)
	if err != nil {
		return nil, err
	}
	var row api.Sandbox
	if err := s.client.call(ctx, http.MethodGet, "/v1/sandboxes/"+seg, nil, &row); err != nil {
		return nil, err
	}
	return s.client.handle(row.ID), nil
}

func (c *Client) handle(id api.SandboxID) *Sandbox {
	return &Sandbox{client: c, id: id, guest: envd.NewClient(envd.ClientConfig{
		Dial: c.dial, Prefix: c.prefix + "/v1/sandboxes/" + string(id) + "/envd", Header: c.headers(),
	})}
}

// List lists sandboxes, the newest first: those that live, or all that ever
// did.
func (s *SandboxService) List(ctx context.Context, all bool) ([]api.Sandbox, error) {
	return collect[api.Sandbox](ctx, s.client, "/v1/sandboxes", whether(all), 0)
}

// SandboxFilter says which sandboxes a list has. All includes those that have ended; States and
// Labels, unless they are empty, leave only those in one of the states, with all of the labels. ForksOf, unless it is
// empty, leaves the forks of that sandbox, and the forks of those. Lineage, unless it is empty, leaves those that have it as
// their lineage: that sandbox, its forks, and what was restored from snapshots of them.
type SandboxFilter struct {
	All     bool
	States  []api.SandboxState
	Labels  map[string]string
	ForksOf api.SandboxID
	Lineage api.SandboxID
}

// Match lists the sandboxes that match a filter, the newest first.
func (s *SandboxService) Match(ctx context.Context, f SandboxFilter) ([]api.Sandbox, error) {
	q := whether(f.All)
	for _, state := range f.States {
		q.Add("state", string(state))
	}
	for name, value := range f.Labels {
		q.Add("label", name+"="+value)
	}
	if f.ForksOf != "" {
		q.Set("forksOf", string(f.ForksOf))
	}
	if f.Lineage != "" {
		q.Set("lineage", string(f.Lineage))
	}
	return collect[api.Sandbox](ctx, s.client, "/v1/sandboxes", q, 0)
}

// Lineage yields the sandbox itself and then each of its forks that has not ended, and their forks. A change that is
// made to each as it comes reaches all of them: it looks again for forks that were made meanwhile. Close each handle. It
// ends with the first error.
func (s *Sandbox) Lineage(ctx context.Context) iter.Seq2[*Sandbox, error] {
	return func(yield func(*Sandbox, error) bool) {
		if !yield(s.client.handle(s.id), nil) {
			return
		}
		for done := map[api.SandboxID]bool{}; ; {
			rows, err := s.client.Sandboxes.Match(ctx, SandboxFilter{ForksOf: s.id})
			if err != nil {
				yield(nil, err)
				return
			}
			before := len(done)
			for _, row := range rows {
				if done[row.ID] {
					continue
				}
				done[row.ID] = true
				if !yield(s.client.handle(row.ID), nil) {
					return
				}
			}
			if len(done) == before {
				return
			}
		}
	}
}

// ID is the sandbox's identifier.
func (s *Sandbox) ID() api.SandboxID { return s.id }

// Close closes the handle's connections. The sandbox lives on.
func (s *Sandbox) Close() error { return s.guest.Close() }

func (s *Sandbox) path(rest string) string { return "/v1/sandboxes/" + string(s.id) + rest }

// Info returns what is known of the sandbox.
func (s *Sandbox) Info(ctx context.Context) (api.Sandbox, error) {
	var out api.Sandbox
	return out, s.client.call(ctx, http.MethodGet, s.path(""), nil, &out)
}

// Killed is the answer to a kill.
type Killed struct {
	Sandbox api.Sandbox `json:"sandbox"`
	Proof   api.Proof   `json:"proof"`
}

// Kill ends the sandbox and everything in it. An error means that this could not
// be proven.
func (s *Sandbox) Kill(ctx context.Context) (Killed, error) {
	var out Killed
	return out, s.client.call(ctx, http.MethodDelete, s.path(""), nil, &out)
}

// SetTTL moves the deadline to ttl from now.
func (s *Sandbox) SetTTL(ctx context.Context, ttl time.Duration) (api.Sandbox, error) {
	var out api.Sandbox
	in := struct {
		TTLMS int64 `json:"ttlMs"`
	}{ttl.Milliseconds()}
	return out, s.client.call(ctx, http.MethodPost, s.path("/ttl"), in, &out)
}

// Pause freezes the sandbox, which keeps its memory; PauseToDisk gives it back.
func (s *Sandbox) Pause(ctx context.Context) (api.Sandbox, error) {
	var out api.Sandbox
	return out, s.client.call(ctx, http.MethodPost, s.path("/pause"), nil, &out)
}

// Resume lets a paused sandbox continue, from disk where it is there.
func (s *Sandbox) Resume(ctx context.Context) (api.Sandbox, error) {
	var out api.Sandbox
	return out, s.client.call(ctx, http.MethodPost, s.path("/resume"), nil, &out)
}

// Stats returns what the sandbox uses now.
func (s *Sandbox) Stats(ctx context.Context) (api.Stats, error) {
	var out api.Stats
	return out, s.client.call(ctx, http.MethodGet, s.path("/stats"), nil, &out)
}

// Samples returns what the sandbox used during the last hour, every five seconds, the oldest first. One that has ended or is
// paused to disk has none.
func (s *Sandbox) Samples(ctx context.Context) ([]api.Stats, error) {
	var out []api.Stats
	return out, s.client.call(ctx, http.MethodGet, s.path("/samples"), nil, &out)
}

// BrowserURL makes the URL at which a program, such as Playwright, reaches the browser inside over the Chrome DevTools Protocol. It
// works once, for ten minutes.
func (s *Sandbox) BrowserURL(ctx context.Context) (api.PortURL, error) {
	var out api.PortURL
	return out, s.client.call(ctx, http.MethodPost, s.path("/browser/url"), nil, &out)
}

// IDEURL makes the URL at which a browser opens the editor inside, in a sandbox of a template with one. It works once.
func (s *Sandbox) IDEURL(ctx context.Context) (out api.PortURL, err error) {
	return out, s.client.call(ctx, http.MethodPost, s.path("/ide/url"), nil, &out)
}

// Execs lists the sandbox's commands, the newest first.
func (s *Sandbox) Execs(ctx context.Context) ([]api.Exec, error) {
	return collect[api.Exec](ctx, s.client, s.path("/execs"), nil, 0)
}

// Hold ties the sandbox's life to this process: when the connection that Hold
// opens ends, by release or because this process died, the sandbox is killed.
func (s *Sandbox) Hold(ctx context.Context) (release func(), err error) {
	// The caller's context bounds the opening; the hold lasts until release.
	holdCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	resp, err := s.client.request(holdCtx, http.MethodGet, s.path("/hold"), nil, nil)
	if !stop() && err == nil {
		resp.Body.Close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, resp.Body) // ends with the sandbox or release
		resp.Body.Close()
	}()
	return func() { cancel(); <-done }, nil
}

// Guest returns the client of the sandbox's guest, for everything that has no
// method here: watching directories, metrics, raw process streams.
func (s *Sandbox) Guest() *envd.Client { return s.guest }

// ReadFile opens a file for reading, as user or, when empty, the default one.
// The size is -1 when it is not known. Close the reader.
func (s *Sandbox) ReadFile(ctx context.Context, user, path string) (io.ReadCloser, int64, error) {
	r, n, err := s.guest.ReadFile(ctx, user, path)
	return r, n, guestError(err)
}

// ReadPart opens at most n bytes of a file for reading, from an offset that is in the file, or 0. The size is that of the part.
func (s *Sandbox) ReadPart(ctx context.Context, user, path string, offset, n int64) (io.ReadCloser, int64, error) {
	r, size, err := s.guest.ReadPart(ctx, user, path, offset, n)
	return r, size, guestError(err)
}

// Upload writes a file whole, with its parents, as u says: aside and renamed, with permissions
// and a time, or as a symbolic link.
func (s *Sandbox) Upload(ctx context.Context, user, path string, u envd.Upload, r io.Reader) error {
	return guestError(s.guest.Upload(ctx, user, path, u, r))
}

// WriteFile writes a file whole, with its parents.
func (s *Sandbox) WriteFile(ctx context.Context, user, path string, r io.Reader) error {
	return guestError(s.guest.WriteFile(ctx, user, path, r))
}

// Stat describes a file.
func (s *Sandbox) Stat(ctx context.Context, user, path string) (*envd.EntryInfo, error) {
	e, err := s.guest.Stat(ctx, user, path)
	return e, guestError(err)
}

// ListDir lists a directory down to depth levels.
func (s *Sandbox) ListDir(ctx context.Context, user, path string, depth int) ([]*envd.EntryInfo, error) {
	e, err := s.guest.ListDir(ctx, user, path, depth)
	return e, guestError(err)
}

// MakeDir makes a directory and its parents; one that is there is no error.
func (s *Sandbox) MakeDir(ctx context.Context, user, path string) error {
	_, err := s.guest.MakeDir(ctx, user, path)
	if err = guestError(err); api.KindOf(err) == api.KindExists {
		return nil
	}
	return err
}

// Remove removes a file or a whole directory.
func (s *Sandbox) Remove(ctx context.Context, user, path string) error {
	return guestError(s.guest.Remove(ctx, user, path))
}
