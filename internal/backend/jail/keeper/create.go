package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxComplaint bounds what is kept of a command's error output, in bytes.
const maxComplaint = 16 << 10

// create runs the plan's command and waits for its end.
func (k *keeper) create() error {
	argv := k.cfg.Plan.Create
	if len(argv) == 0 {
		return errors.New("the plan names no command")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	// What it starts must not learn of this process: no variable, no descriptor but
	// these.
	stdio := os.NewFile(uintptr(k.theirs), "guest")
	proc, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{stdio, stdio, w}})
	w.Close()
	if err != nil {
		return err
	}
	k.theirs = -1
	stdio.Close()
	pid := proc.Pid
	proc.Release()
	go k.reaper.run()
	ws, err := k.reaper.wait(pid)
	if err != nil {
		return err
	}
	if ws.Exited() && ws.ExitStatus() == 0 {
		return nil
	}
	// What it started has the other end too, so that there is no end to wait for.
	r.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	complaint, _ := io.ReadAll(io.LimitReader(r, maxComplaint))
	how := fmt.Sprintf("%s ended with %d", argv[0], ws.ExitStatus())
	if ws.Signaled() {
		how = fmt.Sprintf("%s was ended by signal %d", argv[0], ws.Signal())
	}
	if last := lastLine(string(complaint)); last != "" {
		how += ": " + last
	}
	return errors.New(how)
}

// lastLine is the last line of a text that says something.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
