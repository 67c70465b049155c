package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/datadir"
)

// readyEnv is the variable with the descriptor on which a started daemon reports that it
// serves.
const readyEnv = "HORTUS_READY_FD"

// spawn starts a daemon of this executable and waits until it serves or reports why not.
func spawn(ctx context.Context, dir datadir.Dir, opt Options) error {
	log, err := dir.OpenLog()
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return api.Errorf(api.KindInternal, "start the daemon: %w", err)
	}
	defer r.Close()
	// The file of this executable may have been replaced or deleted since it started (go run
	// deletes it); the link in /proc is the running one.
	cmd := exec.Command("/proc/self/exe", append([]string{"daemon", "run", "--data-dir", string(dir)}, opt.flags()...)...)
	cmd.Args[0] = "hortus"
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), readyEnv+"=3")
	// In a session of its own it does not get the terminal's signals.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return api.Errorf(api.KindInternal, "start the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(r, 64<<10)).ReadBytes('\n')
	if err != nil {
		return api.Errorf(api.KindInternal, "the daemon ended before it was ready").WithHint("its log is %s", dir.Log())
	}
	var said message
	if err := json.Unmarshal(line, &said); err != nil {
		return api.Errorf(api.KindInternal, "the daemon reported %.80q instead of being ready", line)
	}
	switch {
	case said.Owned:
		_ = cmd.Wait() // it ends at once and must be reaped
		return datadir.ErrOwned
	case said.Error != nil:
		_ = cmd.Wait()
		return said.Error
	}
	return cmd.Process.Release()
}

// message is the one line that a started daemon writes; it is empty if the daemon serves.
type message struct {
	Owned bool       `json:"owned,omitempty"`
	Error *api.Error `json:"error,omitempty"`
}

// Report notifies the process that started this daemon that it serves or, with an error, why
// not. It does nothing if no process waits for that.
func Report(getenv func(string) string, failure error) {
	var fd int
	if _, err := fmt.Sscanf(getenv(readyEnv), "%d", &fd); err != nil || fd < 3 {
		return
	}
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return
	}
	defer f.Close()
	m := message{Owned: errors.Is(failure, datadir.ErrOwned)}
	if failure != nil {
		m.Error = api.AsError(failure)
	}
	_ = json.NewEncoder(f).Encode(m)
}
