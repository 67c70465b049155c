package docker_test

import (
	"os/exec"
	"testing"
	"time"

	"hortus.dev/test/dockertest"
	"hortus.dev/test/tier"
)

// TestFarRatios compares a sandbox at another host with Docker's own command line over the same engine and the same connection.
func TestFarRatios(t *testing.T) {
	tier.Soak(t)
	f := newFarBench(t)
	d := f.openFar(t, f.far.Address)
	kill(t, start(t, d, f.spec())) // the image
	cli := func(args ...string) time.Duration {
		cmd := exec.Command(dockertest.Client, args...)
		cmd.Env = []string{"DOCKER_HOST=" + f.far.Address, "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=" + f.far.Certificates, "HOME=" + f.dir}
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return time.Since(begin)
	}
	img := f.docker(t, "images", "-q", "hortus-layers")
	img = img[:12]
	var create, exec, end, run, dexec, rm time.Duration
	const n = 5
	for range n {
		begin := time.Now()
		m := start(t, d, f.spec())
		create += time.Since(begin)
		begin = time.Now()
		output(t, m, "user", ":")
		exec += time.Since(begin)
		begin = time.Now()
		kill(t, m)
		end += time.Since(begin)
		run += cli("run", "-d", "--name", "twin", "--network", "none", img, "/bin/sleep", "1000")
		dexec += cli("exec", "twin", "/bin/sh", "-c", ":")
		rm += cli("rm", "-f", "-v", "twin")
	}
	t.Logf("create %v, docker run %v: %.2f; exec %v, docker exec %v: %.2f; end %v, docker rm %v: %.2f", create/n, run/n, float64(create)/float64(run),
		exec/n, dexec/n, float64(exec)/float64(dexec), end/n, rm/n, float64(end)/float64(rm))
}
