package bench

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// loop starts a program and waits for its end, as often as each line of its input
// says, and writes how long each took, in nanoseconds. posix_spawn is what the C
// library offers for it and forks as the guest does, without a copy of the address
// space; Python adds some 20 microseconds around it.
const loop = `
import os, sys, time
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        start = time.monotonic_ns()
        pid = os.posix_spawn("` + command + `", ["` + command + `"], {})
        _, status = os.waitpid(pid, 0)
        took.append(time.monotonic_ns() - start)
        if status != 0:
            sys.exit("` + command + ` ended with %d" % status)
    print(*took, flush=True)
`

// loops is how many runs of the loop are requested at once.
const loops = 5

// rowLoop is the floor of an exec in a sandbox: what the kernel inside needs for it.
const rowLoop = "fork+exec loop inside"

// loopRow explains it.
func loopRow(backend string) admin.BenchRow {
	name := rowLoop
	if backend == "" {
		name = "fork+exec loop, native"
	}
	return admin.BenchRow{Name: name, Backend: backend, Note: fmt.Sprintf("posix_spawn and wait of %s in a Python process, %d at a time, in turn with the rows above", command, loops)}
}

// looper asks a loop that runs in a sandbox.
func (b *Bench) looper(ctx context.Context, id api.SandboxID) (each func() ([]time.Duration, error), end func(), err error) {
	t, err := b.talkTo(ctx, id, python(loop))
	if err != nil {
		return nil, nil, err
	}
	return func() ([]time.Duration, error) {
		answer, err := t.ask(ctx, strconv.Itoa(loops))
		if err != nil {
			return nil, err
		}
		return durations(answer)
	}, t.close, nil
}

// nativeLooper asks one that runs on the host.
func nativeLooper(ctx context.Context) (each func() ([]time.Duration, error), end func(), err error) {
	program, err := find("python3")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	argv := python(loop)
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	lines := bufio.NewReader(out)
	return func() ([]time.Duration, error) {
			if _, err := fmt.Fprintln(in, loops); err != nil {
				return nil, err
			}
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil, err
			}
			return durations(line)
		}, func() {
			cancel()
			_ = cmd.Wait() // it was killed
		}, nil
}

// durations reads what a loop wrote.
func durations(line string) ([]time.Duration, error) {
	fields := strings.Fields(line)
	if len(fields) != loops {
		return nil, api.Errorf(api.KindInternal, "a loop of %d answered %.100q", loops, line)
	}
	out := make([]time.Duration, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n <= 0 {
			return nil, api.Errorf(api.KindInternal, "a loop answered %.100q", line)
		}
		out[i] = time.Duration(n)
	}
	return out, nil
}
