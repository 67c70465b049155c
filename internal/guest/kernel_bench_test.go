//go:build linux

package guest

import (
	"fmt"
	"testing"
	"time"

	"hortus.dev/api/envd"
)

// BenchmarkKernelExec measures /bin/true on a kernel of its own, from start to end: from
// outside, over an open stream, and as a fork and exec by a program inside.
func BenchmarkKernelExec(b *testing.B) {
	g := newGVisor(b).start(b, "run")
	g.birth(b, nil)
	off := false
	req := &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/true"}, Stdin: &off}
	var times, fresh []time.Duration
	var ns float64
	for b.Loop() {
		for range 100 {
			t := time.Now()
			if r := g.run(b, req, envd.StartOptions{}); r.err != nil || r.end == nil || r.end.ExitCode != 0 {
				b.Fatalf("%+v %v", r.end, r.err)
			}
			times = append(times, time.Since(t))
		}
		for range 20 {
			t := time.Now()
			c := *g
			c.client = envd.NewClient(envd.ClientConfig{Dial: g.dialStream})
			if r := c.run(b, req, envd.StartOptions{}); r.err != nil || r.end == nil || r.end.ExitCode != 0 {
				b.Fatalf("%+v %v", r.end, r.err)
			}
			fresh = append(fresh, time.Since(t))
			c.client.Close()
		}
		r := g.mustRun(b, "/.hortus/inside fork 100")
		if _, err := fmt.Sscan(r.stdout.String(), &ns); err != nil {
			b.Fatalf("%v: %q %q", err, r.stdout.String(), r.stderr.String())
		}
	}
	guest, loop := p50(times), ns/float64(time.Millisecond)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(guest, "guest-ms")
	b.ReportMetric(p50(fresh), "fresh-ms")
	b.ReportMetric(loop, "loop-ms")
	b.ReportMetric(guest/loop, "x-loop")
}
