package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/command"
)

// Guests is the way into sandboxes.
type Guests interface {
	// Client returns the client of a sandbox's guest. It is shared.
	Client(ctx context.Context, id api.SandboxID) (*envd.Client, error)
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (*command.Stream, error)
}

// Ender ends sandboxes.
type Ender interface {
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
}

// Runner is one running sandbox. Its methods but Run, ReadFile and Close are for one goroutine.
type Runner struct {
	guests Guests
	ender  Ender
	info   api.Sandbox
	guest  *envd.Client
	jobs   sync.WaitGroup // the goroutines of jobs

	closing sync.Mutex
	closed  bool
	proof   api.Proof
}

// Open returns the runner of a sandbox that was just created, and owns it: on an error the
// sandbox is killed.
func Open(ctx context.Context, guests Guests, ender Ender, row api.Sandbox) (*Runner, error) {
	guest, err := guests.Client(ctx, row.ID)
	if err != nil {
		// ctx may have ended, which must not leave a sandbox.
		_, _, kerr := ender.Kill(context.WithoutCancel(ctx), row.ID)
		return nil, errors.Join(err, kerr)
	}
	return &Runner{guests: guests, ender: ender, info: row, guest: guest}, nil
}

// Info returns the sandbox as it was created.
func (b *Runner) Info() api.Sandbox { return b.info }

// WriteFile creates or overwrites a file, with its parent directories. The mode of an
// existing file stays unless executable is set.
func (b *Runner) WriteFile(ctx context.Context, path string, content []byte, executable bool) error {
	if err := b.guest.WriteFile(ctx, "", path, bytes.NewReader(content)); err != nil {
		return envd.APIError(err)
	}
	if !executable {
		return nil
	}
	x, err := b.Run(ctx, api.ExecRequest{Args: []string{"chmod", "+x", "--", path}}, func(string, []byte) error { return nil })
	if err == nil && x.Exit.Code != 0 {
		err = api.Errorf(api.KindInternal, "chmod +x %s failed: exit code %d", path, x.Exit.Code)
	}
	return err
}

// ReadFile reads a regular file. The error is KindNotFound for a missing file, KindInvalid
// for one that is not regular, and KindExhausted for one with more than max bytes.
func (b *Runner) ReadFile(ctx context.Context, path string, max int64) ([]byte, error) {
	r, size, err := b.guest.ReadFile(ctx, "", path)
	if err != nil {
		return nil, envd.APIError(err)
	}
	defer r.Close()
	if size > max {
		return nil, api.Errorf(api.KindExhausted, "%s has %d bytes; the maximum is %d", path, size, max)
	}
	// The guest may report a wrong size, so the bytes are counted.
	content, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, envd.APIError(err)
	}
	if int64(len(content)) > max {
		return nil, api.Errorf(api.KindExhausted, "%s has more than %d bytes", path, max)
	}
	return content, nil
}

// listDepth is the number of directory levels that List reads.
const listDepth = 8

// File is a regular file of a workspace. Path is relative to it.
type File struct {
	Path    string
	Size    int64
	ModTime time.Time
}

// List lists the regular files below the workspace, eight directory levels deep.
func (b *Runner) List(ctx context.Context) ([]File, error) {
	root, err := b.guest.Stat(ctx, "", ".")
	if err != nil {
		return nil, envd.APIError(err)
	}
	entries, err := b.guest.ListDir(ctx, "", ".", listDepth)
	if err != nil {
		return nil, envd.APIError(err)
	}
	var files []File
	for _, e := range entries {
		// A symbolic link may lead out of the workspace.
		name, ok := strings.CutPrefix(e.Path, strings.TrimSuffix(root.Path, "/")+"/")
		if ok && e.Type == envd.FileTypeFile && e.SymlinkTarget == nil {
			files = append(files, File{Path: name, Size: e.Size, ModTime: e.ModifiedTime})
		}
	}
	return files, nil
}

// Run runs a command and passes its output to output, in order; stream is "stdout" or
// "stderr", and p is valid during the call only. It returns the record when the command has
// ended by itself, by its timeout or by a limit; an error says that its end was not seen.
// When ctx ends the whole sandbox is killed: only that ends everything that the command
// started.
func (b *Runner) Run(ctx context.Context, req api.ExecRequest, output func(string, []byte) error) (api.Exec, error) {
	s, err := b.guests.StartExec(ctx, b.info.ID, req)
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
			// If the sandbox ended at a limit, the host saw the end of the command.
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

// knownCause reports whether the host knows why a command ended.
func knownCause(cause string) bool {
	switch cause {
	case api.CauseTimeout, api.CauseMemory, api.CauseOutput, api.CauseCPUTime:
		return true
	}
	return false
}

// Close kills the sandbox and waits for its jobs. It is idempotent.
func (b *Runner) Close(ctx context.Context) (api.Proof, error) {
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.closed {
		return b.proof, nil
	}
	_, proof, err := b.ender.Kill(ctx, b.info.ID)
	if err == nil {
		b.closed, b.proof = true, proof
		b.jobs.Wait() // their streams have ended with the sandbox
	}
	return proof, err
}
