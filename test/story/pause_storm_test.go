package story

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// mapper maps memory, writes it and unmaps it again, in four threads: it keeps the kernel's threads
// that do this on the host busy.
const mapper = `
import mmap, threading
def work():
    while True:
        m = mmap.mmap(-1, 4 << 20)
        for i in range(0, 4 << 20, 4096):
            m[i] = 1
        m.close()
for _ in range(4):
    threading.Thread(target=work).start()
`

// TestPausesWhileProgramsRun: a pause in memory interrupts threads of the host at any instant, and no
// sandbox ends by it.
func TestPausesWhileProgramsRun(t *testing.T) {
	tier.Soak(t) // a storm; test/conformance pauses
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor")
	g.can("gvisor", api.CapPause)
	sandboxes, pauses := tier.Count(2, 6), tier.Count(5, 150)
	var ids []string
	for range sandboxes {
		id := strings.TrimSpace(g.must("sandbox", "create", "--ttl", "1h"))
		g.must("sandbox", "exec", id, "--", "sh", "-c", fmt.Sprintf("(python3 -I -c '%s' >/dev/null 2>&1 &)", mapper))
		ids = append(ids, id)
	}
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			for n := range pauses {
				for _, verb := range []string{"pause", "resume"} {
					if r := g.patient("sandbox", verb, id); r.code != 0 {
						t.Errorf("%s %d of %s: %s", verb, n, id, r)
						return
					}
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if r := g.patient("sandbox", "exec", id, "--", "sh", "-c", "ps ax | grep -c '[m]map'"); r.code != 0 || strings.TrimSpace(r.stdout) == "0" {
			t.Errorf("%s runs no program any more: %s", id, r)
		}
	}
}
