package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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
	var stdout, stderr strings.Builder
	program, err := find(argv[0])
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	for name, value := range environment(dir) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", failure(err, stderr.String())
	}
	return stdout.String(), nil
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
