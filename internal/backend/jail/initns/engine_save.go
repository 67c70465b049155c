package initns

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/upper"
	"hortus.dev/internal/guest/birth"
)

// EngineSave is the first argument of the program that saves the files of a container of an engine. It is the first process of another
// container, of the same image, which has the process ids of the first one. No process of that one runs meanwhile. The program reads
// its files through its first process, and compares them with its own root: so it knows what was written, whatever the engine stores
// files in.
const EngineSave = "engine-save"

// EngineSaveSpec is what the program receives, with the descriptor of the file that it writes, in the format of package upper. Its answer is
// a birth.Report.
type EngineSaveSpec struct {
	// Entries and Bytes are those of upper.Options.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// RefusedStep is the step of an error of which the saved files are the cause.
const RefusedStep = "read a file of the sandbox"

// runEngineSave saves the files, and sends the report of a success.
func runEngineSave() error {
	if err := connect(); err != nil {
		return err
	}
	var spec EngineSaveSpec
	fds, err := receiveJSON(&spec)
	if err != nil {
		return err
	}
	if len(fds) != 1 {
		return at("read the spec", unix.EBADF)
	}
	out := os.NewFile(uintptr(fds[0]), "saved")
	hidden, err := mountPoints(1)
	if err != nil {
		return at("read the mounts of the sandbox", err)
	}
	own, err := mountPoints(os.Getpid())
	if err != nil {
		return at("read the mounts", err)
	}
	for p := range own {
		if !covered(hidden, p) { // the saved files would be in the way of a mount
			return at(RefusedStep, fmt.Errorf("%q: a directory above it was moved", "/"+p))
		}
	}
	hidden[strings.TrimPrefix(birth.RunDir, "/")] = true // it tells which sandbox it is
	now, err := unix.Open("/proc/1/root", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at("open the root of the sandbox", err)
	}
	was, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at("open the root", err)
	}
	err = upper.WriteBetween(context.Background(), out, upper.Between{Name: upper.Root, Now: now, Was: was, Hidden: hidden},
		upper.Options{ID: func(id uint32) (uint32, bool) { return id, true }, Entries: spec.Entries, Bytes: spec.Bytes})
	var refused *upper.RefusedError
	if errors.As(err, &refused) {
		return at(RefusedStep, refused)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return at("save the files", err)
	}
	b, err := json.Marshal(birth.Report{Ready: true})
	if err != nil {
		return err
	}
	return at("answer", unix.Sendmsg(controlFD, b, nil, nil, unix.MSG_NOSIGNAL))
}

// mountPoints are the paths at which a process has mounts, below its root and without a slash at their start.
func mountPoints(pid int) (map[string]bool, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("a line of mountinfo has %d fields", len(fields))
		}
		if p := strings.TrimPrefix(path.Clean(unescape(fields[4])), "/"); p != "" {
			all[p] = true
		}
	}
	return all, lines.Err()
}

// unescape decodes a path of mountinfo, in which some bytes are octal numbers.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// covered reports whether a path is at one of the mount points, or below one.
func covered(points map[string]bool, p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if points[p] {
			return true
		}
	}
	return false
}
