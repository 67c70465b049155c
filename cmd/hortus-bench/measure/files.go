package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/program"
)

// rowFiles begins the rows of the measurement "files".
const rowFiles = "files: "

// mostFiles is how many files work is done with, once the number of samples is large
// enough to mean it.
const mostFiles = 20_000

// place is where jobs are done.
type place struct {
	backend, name string // no backend is the host itself
	// fresh makes the place ready for a round, where every round begins with a sandbox
	// that has done nothing.
	fresh func(ctx context.Context) error
	run   func(ctx context.Context, argv []string) (string, error)
	// cpu is the processor time that commands have taken here so far. It moves less
	// than the clock on a machine that others use.
	cpu   func(ctx context.Context) (time.Duration, error)
	times map[string][]time.Duration
	used  map[string][]time.Duration
}

// files measures what is hard on a kernel that answers system calls itself: many small
// files. The same commands run on the host, on the sandbox's own disk, and in a durable
// workspace over a layer with the same files, one after another.
func (r *run) files(ctx context.Context) (err error) {
	count, n := min(500*r.N, mostFiles), min(max(r.N/40, 1), 10)
	r.step("", 0, n)
	dir, err := rivalsDir()
	if err != nil {
		return api.Errorf(api.KindInternal, "files: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := growNative(ctx, dir, count); err != nil {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		r.report(figure.Missing(rowFiles+"native", "", err.Error()))
		return nil
	}
	host := &place{
		name: "native", run: func(ctx context.Context, argv []string) (string, error) { return native(ctx, dir, argv) },
		cpu: func(context.Context) (time.Duration, error) { return childrenCPU() },
	}
	places := []*place{host}
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	var module string
	for _, backend := range r.backends {
		p, id, err := r.ownDisk(ctx, backend, count)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			r.report(figure.Missing(rowFiles+ownDisk, backend, err.Error()))
			continue
		}
		defer r.kill(id)
		places = append(places, p)
		if module == "" {
			if module, err = r.imports(ctx, id); err != nil {
				return err
			}
		}
		p, end, err := r.durable(ctx, backend, count)
		if err != nil {
			r.report(figure.Missing(rowFiles+durable, backend, err.Error()))
			continue
		}
		ends = append(ends, end)
		places = append(places, p)
	}
	if len(places) == 1 {
		return nil
	}
	list := jobs(count, module)
	for i := range n {
		for _, p := range places {
			if p.fresh == nil {
				continue
			}
			if err := p.fresh(ctx); err != nil {
				return err
			}
		}
		for j, job := range list {
			r.step("", i*len(list)+j, n*len(list))
			for _, p := range places {
				if err := r.quiet(ctx); err != nil {
					return err
				}
				if err := p.do(ctx, job); err != nil {
					return err
				}
			}
		}
	}
	r.step("", n*len(list), n*len(list))
	r.reportFiles(list, places, count)
	return nil
}

// do does a job, and knows how long it took.
func (p *place) do(ctx context.Context, j job) error {
	if j.first && p.fresh == nil && p.backend != "" {
		return nil
	}
	before, err := p.cpu(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	out, err := p.run(ctx, []string{"sh", "-c", j.command})
	took := time.Since(start)
	if err == nil && j.want != "" && strings.TrimSpace(out) != j.want {
		err = api.Errorf(api.KindInternal, "it wrote %.40q, not %s", out, j.want)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindInternal, "%s %s: %s: %w", p.backend, p.name, j.command, err)
	}
	after, err := p.cpu(ctx)
	if p.times == nil {
		p.times, p.used = map[string][]time.Duration{}, map[string][]time.Duration{}
	}
	p.times[j.name], p.used[j.name] = append(p.times[j.name], took), append(p.used[j.name], after-before)
	return err
}

// reportFiles reports job by job, the host first.
func (r *run) reportFiles(list []job, places []*place, count int) {
	for _, j := range list {
		if j.name == "" {
			continue
		}
		name := rowFiles + j.name + ", "
		if !strings.HasPrefix(j.name, "Python") {
			name = fmt.Sprintf("%s%s of %d, ", rowFiles, j.name, count)
		}
		var base float64
		for _, p := range places {
			if len(p.times[j.name]) == 0 {
				continue
			}
			row := figure.Row{Name: name + p.name, Backend: p.backend}
			if p.backend != "" {
				row.Baseline = name + places[0].name
			}
			if used := figure.Median(p.used[j.name]); used > 0 {
				row.Note = fmt.Sprintf("%.0f ms of processor time", used)
			}
			r.times(row, p.times[j.name], base)
			if p == places[0] {
				base = figure.Median(p.times[j.name])
			}
		}
	}
}

// The places of a sandbox's files.
const (
	ownDisk = "own disk"
	durable = "workspace"
)

// runIn runs commands of jobs in a sandbox.
func (r *run) runIn(id api.SandboxID) func(context.Context, []string) (string, error) {
	return func(ctx context.Context, argv []string) (string, error) {
		return r.until(ctx, id, api.ExecRequest{Args: argv, Env: environment("/tmp")}, "")
	}
}

// cpuOf reads what the host has counted for a sandbox; nothing where it does not count.
func (r *run) cpuOf(id api.SandboxID) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		s, err := r.Sandboxes.Sandboxes.Stats(ctx, id)
		if api.KindOf(err) == api.KindUnsupported {
			return 0, nil
		}
		return time.Duration(s.CPUTimeMS) * time.Millisecond, err
	}
}

// childrenCPU is the processor time of this process's children that were waited for.
func childrenCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// ownDisk makes a sandbox with the files on its own disk.
func (r *run) ownDisk(ctx context.Context, backend string, count int) (*place, api.SandboxID, error) {
	s, err := r.Sandboxes.Creator.CreateCold(ctx, r.busy(ctx, backend))
	if err != nil {
		return nil, "", err
	}
	p := &place{backend: backend, name: ownDisk, run: r.runIn(s.ID), cpu: r.cpuOf(s.ID)}
	if err := grow(count, func(argv []string) (string, error) { return p.run(ctx, argv) }); err != nil {
		r.kill(s.ID)
		return nil, "", err
	}
	return p, s.ID, nil
}

// durable makes files in a layer, and a workspace over it that a new sandbox has in each
// round.
func (r *run) durable(ctx context.Context, backend string, count int) (*place, func(), error) {
	ws, remove, err := r.place(ctx, func(dir string) error { return growNative(ctx, dir, count) })
	if err != nil {
		return nil, nil, err
	}
	p := &place{backend: backend, name: durable}
	var id api.SandboxID
	end := func() {
		if id != "" {
			r.kill(id)
			id = ""
		}
	}
	open := func(ctx context.Context) error {
		end()
		s, err := r.Sandboxes.Creator.CreateIn(ctx, r.busy(ctx, backend), ws)
		if err == nil {
			id, p.run, p.cpu = s.ID, r.runIn(s.ID), r.cpuOf(s.ID)
		}
		return err
	}
	away := func() {
		end()
		remove()
	}
	if err := open(ctx); err != nil { // whether it can be had
		away()
		return nil, nil, err
	}
	p.fresh = open
	return p, away, nil
}

// generator writes a tar archive of so many small files, 100 in a directory, and the
// same files as a commit for git to import. What is in them hangs on nothing but their
// numbers: 200 to 3,800 bytes each.
const generator = `
import io, sys, tarfile
count, state = int(sys.argv[1]), 1
def draw():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return state >> 33
with tarfile.open("files.tar", "w") as tar, open("commit", "wb") as commit:
    commit.write(b"commit refs/heads/main\ncommitter bench <bench@invalid> 1700000000 +0000\ndata 5\nfiles\n")
    for i in range(count):
        line = b"%d " % draw()
        data = (line * (3800 // len(line) + 1))[:200 + draw() % 3600]
        name = "d%03d/file%05d.txt" % (i // 100, i)
        info = tarfile.TarInfo(name)
        info.size, info.mtime = len(data), 1700000000
        tar.addfile(info, io.BytesIO(data))
        commit.write(b"M 100644 inline %s\ndata %d\n" % (name.encode(), len(data)) + data + b"\n")
`

// importer makes a repository of them, with its files checked out. What git remembers
// of a file is no more than its time and size, so that a copy elsewhere is not new
// to it.
const importer = `set -e
git init -q -b main repo
git -C repo config core.checkStat minimal
git -C repo config core.trustCtime false
git -C repo fast-import --quiet <commit
rm commit
git -C repo reset -q --hard
sleep 1.1
git -C repo status --porcelain`

// job is what is done with files, as a shell command. What it writes must be want,
// where that is not empty.
type job struct {
	name, command, want string
	// first is for a job that is done in a sandbox which has done nothing before.
	first bool
}

// jobs are done in this order; the last one takes away what those before it made.
func jobs(count int, module string) []job {
	n := strconv.Itoa(count)
	status := "git -C repo status --porcelain"
	load := "python3 -I -c '" + module + "'"
	return []job{
		{name: "git status, first", command: status, first: true},
		{name: "Python import, first", command: load, first: true},
		{name: "git status", command: status},
		{name: "git clone --shared", command: "git clone -q --shared repo clone"},
		{name: "tar x", command: "mkdir tree && tar -x -f files.tar -C tree --no-same-owner"},
		{name: "find", command: "find tree -type f -size +0 | wc -l", want: n},
		{name: "read all", command: "find tree -type f -print0 | xargs -0 cat | wc -l", want: "0"},
		{name: "rm -r", command: "rm -r tree"},
		{name: "Python import", command: load},
		{name: "", command: "rm -r clone"},
	}
}

// environment is what jobs have, everywhere.
func environment(home string) map[string]string {
	return map[string]string{
		"PATH": path, "HOME": home, "LC_ALL": "C", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		// The files may be another's, who made the layer.
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
	}
}

// native runs a command on the host, in a directory, and all that it starts ends with
// the context.
func native(ctx context.Context, dir string, argv []string) (string, error) {
	found, err := program.Find(argv[0])
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, found, argv[1:]...)
	cmd.Dir = dir
	for name, value := range environment(dir) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return program.Output(ctx, cmd)
}

// grow makes the corpus by whatever runs commands.
func grow(count int, run func(argv []string) (string, error)) error {
	if _, err := run(python(generator, strconv.Itoa(count))); err != nil {
		return fmt.Errorf("make the files: %w", err)
	}
	if _, err := run([]string{"sh", "-c", importer}); err != nil {
		return fmt.Errorf("make the repository: %w", err)
	}
	return nil
}

// growNative makes it in a directory of the host's.
func growNative(ctx context.Context, dir string, count int) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return grow(count, func(argv []string) (string, error) { return native(ctx, dir, argv) })
}
