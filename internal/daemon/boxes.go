package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/agent"
	"hortus.dev/internal/sandbox/manager"
)

// boxes gives the Executor its sandboxes, over the manager.
type boxes struct {
	manager *manager.Manager
	// create makes one on behalf of whose task it is: the context's principal.
	create func(context.Context, api.CreateSandbox) (api.Sandbox, error)
}

// Create implements agent.Sandboxes.
func (b boxes) Create(ctx context.Context, req api.CreateSandbox) (agent.Sandbox, error) {
	s, err := b.create(ctx, req)
	if err != nil {
		return nil, err
	}
	return b.box(ctx, s)
}

// box is the computer of a sandbox that was just made.
func (b boxes) box(ctx context.Context, s api.Sandbox) (*box, error) {
	guest, err := b.manager.Client(ctx, s.ID)
	if err != nil {
		// On an error nothing is left; ctx may be the reason.
		_, _, kerr := b.manager.Kill(context.WithoutCancel(ctx), s.ID)
		return nil, errors.Join(err, kerr)
	}
	return &box{manager: b.manager, info: s, guest: guest}, nil
}

// box is one sandbox of an attempt.
type box struct {
	manager *manager.Manager
	info    api.Sandbox
	guest   *envd.Client
	jobs    sync.WaitGroup // the goroutines of jobs

	closing sync.Mutex
	closed  bool
	proof   api.Proof
}

// Info implements agent.Sandbox.
func (b *box) Info() api.Sandbox { return b.info }

// WriteFile implements agent.Sandbox.
func (b *box) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	if err := b.guest.WriteFile(ctx, "", path, bytes.NewReader(content)); err != nil {
		return guestError(err)
	}
	if !executable {
		return nil
	}
	x, err := b.Run(ctx, api.ExecRequest{Args: []string{"chmod", "+x", "--", path}}, func(string, []byte) error { return nil })
	if err == nil && x.Exit.Code != 0 {
		err = api.Errorf(api.KindInternal, "chmod +x %s ended with %d", path, x.Exit.Code)
	}
	return err
}

// ReadFile implements agent.Sandbox.
func (b *box) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	r, size, err := b.guest.ReadFile(ctx, "", path)
	if err != nil {
		return nil, guestError(err)
	}
	defer r.Close()
	if size > max {
		return nil, api.Errorf(api.KindExhausted, "%s has %d bytes; the most is %d", path, size, max)
	}
	// The size is the guest's word; what comes is counted.
	content, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, guestError(err)
	}
	if int64(len(content)) > max {
		return nil, api.Errorf(api.KindExhausted, "%s has more than %d bytes", path, max)
	}
	return content, nil
}

// listDepth is how many levels of directories are looked at for what a program made.
const listDepth = 8

// List implements agent.Sandbox.
func (b *box) List(ctx context.Context) ([]agent.FileInfo, error) {
	root, err := b.guest.Stat(ctx, "", ".")
	if err != nil {
		return nil, guestError(err)
	}
	entries, err := b.guest.ListDir(ctx, "", ".", listDepth)
	if err != nil {
		return nil, guestError(err)
	}
	var files []agent.FileInfo
	for _, e := range entries {
		// A link is not followed: what it leads to is no file of the program's own.
		name, ok := strings.CutPrefix(e.Path, strings.TrimSuffix(root.Path, "/")+"/")
		if ok && e.Type == envd.FileTypeFile && e.SymlinkTarget == nil {
			files = append(files, agent.FileInfo{Path: name, Size: e.Size, ModTime: e.ModifiedTime})
		}
	}
	return files, nil
}

// Run implements agent.Sandbox. When ctx ends the whole sandbox is killed: that
// is the one way to be sure that the command and all that it started are gone.
func (b *box) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	s, err := b.manager.StartExec(ctx, b.info.ID, req)
	if err != nil {
		return api.Exec{}, err
	}
	defer s.Close()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		b.Close(context.WithoutCancel(ctx))
	})
	defer func() {
		if !stop() {
			<-ended
		}
	}()
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return s.Exec(), nil
		}
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			// A sandbox that ended at a limit is an end that was seen, by the
			// host's own accounting.
			if x := s.Exec(); ctx.Err() == nil && knownCause(x.Exit.Cause) {
				return x, nil
			}
			return s.Exec(), err
		}
		if ev.Data == nil {
			continue
		}
		for stream, p := range map[string][]byte{"stdout": ev.Data.Stdout, "stderr": ev.Data.Stderr} {
			if len(p) == 0 {
				continue
			}
			if err := output(stream, p); err != nil {
				return s.Exec(), err
			}
		}
	}
}

func knownCause(cause string) bool {
	switch cause {
	case api.CauseTimeout, api.CauseMemory, api.CauseOutput, api.CauseCPUTime:
		return true
	}
	return false
}

// Close implements agent.Sandbox.
func (b *box) Close(ctx context.Context) (api.Proof, error) {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.closed {
		return b.proof, nil
	}
	_, proof, err := b.manager.Kill(ctx, b.info.ID)
	if err == nil {
		b.closed, b.proof = true, proof
		b.jobs.Wait() // whose streams have ended with the sandbox
	}
	return proof, err
}

func guestError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		return e.API()
	}
	return err
}
