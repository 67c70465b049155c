package jail_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// starterMain is a daemon that starts sandboxes until it is killed.
func starterMain() int {
	store, err := layer.Open(os.Getenv("STARTER_LAYERS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b, err := jail.New(jail.Config{Name: "container", Dir: os.Getenv("STARTER_RUN"), Layers: store})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: specLayers(), Limits: limits(), Hostname: "x"}
		m, err := b.Start(context.Background(), spec)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if _, err := try(m, request{Args: []string{"/bin/sh", "-c", "sleep 3600 >/dev/null 2>&1 & sleep 0"}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("started")
		if i%2 == 1 {
			if _, err := m.Kill(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
}

// A daemon is killed at many instants; what it leaves is found and destroyed.
func TestReclaimAfterKill(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	e := newEnv(t)
	// Orphans come to this process, so that an end of the list of children
	// proves that there is none.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	var reclaimed, early, processes int
	for i := range rounds {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "HORTUS_TEST_CHILD=starter", "STARTER_LAYERS="+e.layers.Dir(), "STARTER_RUN="+e.dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
			t.Fatalf("the daemon says %q (%v)", line, err)
		}
		// Spread over the first two starts: a start takes some milliseconds.
		time.Sleep(time.Duration(rand.IntN(25000)) * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		ids, err := e.Orphans(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			early++
		}
		for _, id := range ids {
			p, err := e.Reclaim(context.Background(), id)
			if err != nil {
				t.Fatalf("round %d: Reclaim: %v", i, err)
			}
			if p.Left != 0 {
				t.Errorf("round %d: %+v", i, p)
			}
			reclaimed++
			processes += p.Killed
			if again, err := e.Reclaim(context.Background(), id); err != nil || again.Killed != 0 || again.Left != 0 {
				t.Errorf("round %d: a second Reclaim: %+v, %v", i, again, err)
			}
		}
		eventually(t, "no process of a dead daemon", func() bool {
			var ws unix.WaitStatus
			for {
				pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
				if err == unix.ECHILD {
					return true
				}
				if pid <= 0 {
					return false
				}
			}
		})
		nothingLeft(t, e)
	}
	t.Logf("%d kills: %d sandboxes with %d processes reclaimed, %d kills before or between sandboxes", rounds, reclaimed, processes, early)
	if reclaimed == 0 {
		t.Error("no kill left anything to reclaim")
	}
}
