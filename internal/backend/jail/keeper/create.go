package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxErrorOutput is the maximum of a command's error output that is kept, in bytes.
const maxErrorOutput = 16 << 10

// create runs the plan's command and waits for its end.
func (k *keeper) create() error {
	argv := k.cfg.Plan.Create
	if len(argv) == 0 {
		return errors.New("the plan has no command")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	// It gets nothing else of this process: no variables, no other descriptors.
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
	// The processes that it started have the pipe open too, so that it does not end.
	r.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	errorOutput, _ := io.ReadAll(io.LimitReader(r, maxErrorOutput))
	how := fmt.Sprintf("%s exited with status %d", argv[0], ws.ExitStatus())
	if ws.Signaled() {
		how = fmt.Sprintf("%s was killed by signal %d", argv[0], ws.Signal())
	}
	if last := lastLine(string(errorOutput)); last != "" {
		how += ": " + last
	}
	return errors.New(how)
}

// lastLine is the last line of a text that is not empty.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
