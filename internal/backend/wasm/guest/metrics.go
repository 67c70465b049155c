package guest

import (
	"net/http"
	"os"
	"runtime"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/rpc"
	"hortus.dev/internal/platform/proc"
)

// metrics serves GET /metrics: this process and its commands.
func (g *Guest) metrics(c *rpc.Conn, req *http.Request) error {
	if ok, err := c.RequireMethod(req, http.MethodGet); !ok {
		return err
	}
	settings := g.programs.cfg.Settings
	m := envd.Metrics{
		TS: time.Now().Unix(), CPUCount: runtime.NumCPU(), MemTotal: settings.Memory,
		DiskTotal: settings.Disk, DiskUsed: g.tree.Used(), MemUsed: g.programs.cfg.Memory.Used(),
	}
	for _, pid := range proc.Tree(os.Getpid()) {
		st, err := proc.Read(pid)
		if err != nil {
			continue // it has ended
		}
		m.Processes++
		m.CPUTimeMS += st.CPU.Milliseconds()
		m.RSS += st.Memory
	}
	return c.AnswerJSON(m)
}
