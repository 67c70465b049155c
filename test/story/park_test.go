package story

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// TestServerKilledPausingFiles kills a server at random instants while a container is
// paused to disk without its memory. It continues as it was, processes included, or has
// its files: no sandbox is lost. HORTUS_TEST_KILLS=100 kills as often as that.
func TestServerKilledPausingFiles(t *testing.T) {
	tier.Soak(t) // kills; test/conformance pauses files
	t.Parallel()
	g := newGarden(t)
	g.can("container", api.CapStart, api.CapPause)
	g.shareKernel()
	key := strings.TrimSpace(g.must("key", "create", "--account", "anybody", "--quiet"))
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 3))
	t.Logf("seed %d", seed)
	w := &wire{t: t, g: g}
	defer w.end()
	w.serve()
	fell := map[api.SandboxState]int{}
	n := killCount(t, 2, 6)
	for i := range n {
		w.create(key)
		id := string(w.sandbox)
		g.remember(id, i)
		// Much to copy, and after it, as names are sorted, what is looked for.
		g.must("sandbox", "exec", id, "--", "sh", "-c", fmt.Sprintf("head -c 20000000 /dev/urandom >much; echo %d >number", i))
		req, err := http.NewRequest(http.MethodPost, "http://"+w.addr+"/sandboxes/"+id+"/pause", strings.NewReader(`{"memory":false}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", key)
		req.Header.Set("Content-Type", "application/json")
		asked := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				if resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
					err = fmt.Errorf("the pause is answered with %s", resp.Status)
				}
			}
			if resp == nil {
				err = nil // it was cut off
			}
			asked <- err
		}()
		<-time.NewTimer(time.Duration(random.Int64N(int64(150 * time.Millisecond)))).C
		w.kill()
		if err := <-asked; err != nil {
			t.Errorf("kill %d: %v", i, err)
		}
		http.DefaultClient.CloseIdleConnections()
		w.serve()
		row := decode[api.Sandbox](t, g.must("sandbox", "show", "--json", id))
		fell[row.State]++
		switch row.State {
		case api.SandboxRunning:
			g.recalls(id, i)
		case api.SandboxPaused:
			g.must("sandbox", "resume", id)
		default:
			t.Errorf("kill %d: the sandbox is %s: %q", i, row.State, row.Reason)
			continue
		}
		if got := strings.TrimSpace(g.must("sandbox", "exec", id, "--", "cat", "number")); got != fmt.Sprint(i) {
			t.Errorf("kill %d: it holds %q, not %d", i, got, i)
		}
		g.must("sandbox", "kill", id)
	}
	t.Logf("%d kills: %v", n, fell)
}
