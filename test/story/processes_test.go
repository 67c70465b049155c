package story

import (
	"os"

	"hortus.dev/test/reaper"
)

// orphans lists what lost its parent in a story: the reaper's children that are
// neither this test nor a daemon.
func orphans() []reaper.Process {
	var out []reaper.Process
	for _, p := range reaper.Processes() {
		if p.Parent == os.Getppid() && p.PID != os.Getpid() && p.State != 'Z' && !isDaemon(p) {
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
