package sandbox

import (
	"fmt"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

type sandboxStatsCmd struct {
	IDs []string `arg:"" name:"id" complete:"sandboxes" help:"Sandbox IDs, unique prefixes of them, or last. Memory of several is added up; what they share is counted once."`
}

// groupStats is the resource usage of several sandboxes.
type groupStats struct {
	Sandboxes map[api.SandboxID]api.Stats `json:"sandboxes"`
	Memory    api.MemoryUse               `json:"memory"`
}

// Run shows the resource usage of sandboxes.
func (c *sandboxStatsCmd) Run(ctx app.Context, a *app.App) error {
	all := groupStats{Sandboxes: map[api.SandboxID]api.Stats{}}
	var ids []api.SandboxID
	for _, id := range c.IDs {
		s, err := find(ctx, a, id)
		if err != nil {
			return err
		}
		st, err := s.Stats(ctx)
		s.Close()
		if err != nil {
			return err
		}
		if _, ok := all.Sandboxes[s.ID()]; !ok {
			ids = append(ids, s.ID())
		}
		all.Sandboxes[s.ID()] = st
	}
	if len(c.IDs) == 1 {
		return showStats(a, all.Sandboxes[ids[0]])
	}
	all.Memory = api.MemoryOf(all.Sandboxes)
	if a.Flags.JSON {
		return a.JSON(all)
	}
	w := a.Table()
	fmt.Fprintln(w, "ID\tPROCESSOR TIME\tMEMORY\tSHARED\tCHARGED\tPROCESSES")
	for _, id := range ids {
		st := all.Sandboxes[id]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", human.Sanitize(string(id)), known(st.CPUTimeMS, milliseconds), known(st.MemoryOwnBytes, human.Size),
			known(st.MemorySharedBytes, human.Size), known(st.MemoryBytes, human.Size), known(st.Processes, number))
	}
	fmt.Fprintf(w, "together\t\t%s\t%s\t\t\n", human.Size(all.Memory.OwnBytes), human.Size(all.Memory.SharedBytes))
	return w.Flush()
}

// showStats shows the resource usage of one sandbox.
func showStats(a *app.App, st api.Stats) error {
	if a.Flags.JSON {
		return a.JSON(st)
	}
	w := a.Table()
	fmt.Fprintf(w, "processor time\t%s\n", known(st.CPUTimeMS, milliseconds))
	fmt.Fprintf(w, "memory\t%s\n", known(st.MemoryOwnBytes, human.Size))
	fmt.Fprintf(w, "shared memory\t%s\n", known(st.MemorySharedBytes, human.Size))
	fmt.Fprintf(w, "charged memory\t%s\n", known(st.MemoryBytes, human.Size))
	fmt.Fprintf(w, "peak memory\t%s\n", known(st.MemoryPeakBytes, human.Size))
	fmt.Fprintf(w, "killed for memory\t%s\n", known(st.MemoryKills, number))
	fmt.Fprintf(w, "processes\t%s\n", known(st.Processes, number))
	disk := known(st.DiskUsedBytes, human.Size)
	if st.DiskTotalBytes >= 0 {
		disk += " of " + human.Size(st.DiskTotalBytes)
	}
	fmt.Fprintf(w, "disk\t%s\n", disk)
	fmt.Fprintf(w, "shared disk\t%s\n", human.Size(st.DiskSharedBytes))
	return w.Flush()
}

// known shows a number that the host may not know.
func known(n int64, show func(int64) string) string {
	if n < 0 {
		return "unknown here"
	}
	return show(n)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func milliseconds(n int64) string { return human.Duration(time.Duration(n) * time.Millisecond) }
