package jail_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

// report adds the median and the 99th percentile of samples.
func report(b *testing.B, name string, d []time.Duration) {
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
}

// BenchmarkCreate measures from the call of Start to the output of the first
// command, the kill that follows, and, interleaved, what a fork and exec of the
// same command costs on the host.
func BenchmarkCreate(b *testing.B) {
	e, tree := newHostEnv(b)
	var create, start, end, native []time.Duration
	for b.Loop() {
		t0 := time.Now()
		if err := exec.Command("/usr/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		native = append(native, time.Since(t0))
		spec := sandbox.Spec{ID: api.NewSandboxID(), Hostname: "garden"}
		onHost(tree)(&spec)
		t0 = time.Now()
		m, err := e.Start(context.Background(), spec)
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		// Close waits for machines, so one must not outlive a failure.
		b.Cleanup(func() { m.Kill(context.Background()) })
		if rep, err := try(m, request{Args: []string{"/usr/bin/true"}}); err != nil || rep.Code != 0 {
			b.Fatal(rep, err)
		}
		t2 := time.Now()
		if _, err := m.Kill(context.Background()); err != nil {
			b.Fatal(err)
		}
		create, start, end = append(create, t2.Sub(t0)), append(start, t1.Sub(t0)), append(end, time.Since(t2))
	}
	report(b, "create", create)
	report(b, "start", start)
	report(b, "kill", end)
	report(b, "native", native)
}
