package story

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hortus.dev/test/reaper"
)

// orphans lists what lost its parent in this story: the reaper's children that are
// neither this test nor a daemon, nor a sandbox of a story that runs at the same time and
// kills its daemon too.
func (g *garden) orphans() []reaper.Process {
	g.t.Helper()
	records, err := filepath.Glob(filepath.Join(os.TempDir(), gardens+"*", "d", "run", "*", "*", "pid"))
	if err != nil {
		g.t.Fatal(err)
	}
	others := map[string]bool{}
	for _, record := range records {
		if b, err := os.ReadFile(record); err == nil && !strings.HasPrefix(record, g.dir+"/") {
			pid, _, _ := strings.Cut(string(b), " ")
			others[pid] = true
		}
	}
	var out []reaper.Process
	for _, p := range reaper.Processes() {
		if p.Parent == os.Getppid() && p.PID != os.Getpid() && p.State != 'Z' && !isDaemon(p) && !others[strconv.Itoa(p.PID)] {
			out = append(out, p)
		}
	}
	return out
}

func isDaemon(p reaper.Process) bool {
	return len(p.Args) > 2 && p.Args[1] == "daemon" && p.Args[2] == "run"
}

// daemonOf finds the daemon of a data directory, 0 when none runs.
func daemonOf(dir string) int {
	for _, p := range reaper.Processes() {
		if p.State == 'Z' || !isDaemon(p) {
			continue
		}
		for _, a := range p.Args {
			if a == dir {
				return p.PID
			}
		}
	}
	return 0
}
