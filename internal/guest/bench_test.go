//go:build linux

package guest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/test/tools"
)

// buildGuest builds the small guest as releases do.
func buildGuest(b testing.TB) string { return tools.Program(b, "./cmd/hortus-guest") }

func p50(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2]) / float64(time.Millisecond)
}

// BenchmarkExec measures /bin/true from start to end: through the guest with captured
// output, natively with captured output, and natively without. The three alternate. The
// time ends when the caller has the exit status.
func BenchmarkExec(b *testing.B) {
	g := startGuest(b, guestOptions{binary: buildGuest(b)})
	off := false
	req := &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/true"}, Stdin: &off}
	ctx := context.Background()
	var times [3][]time.Duration
	for b.Loop() {
		t0 := time.Now()
		s, err := g.client.Start(ctx, req, envd.StartOptions{})
		if err != nil {
			b.Fatal(err)
		}
		var r result
		collect(s, &r)
		t1 := time.Now()
		if r.err != nil || r.end == nil || r.end.ExitCode != 0 {
			b.Fatalf("%+v %v", r.end, r.err)
		}
		cmd := exec.Command("/bin/true")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		t3 := time.Now()
		for i, d := range []time.Duration{t1.Sub(t0), t2.Sub(t1), t3.Sub(t2)} {
			times[i] = append(times[i], d)
		}
	}
	guest, capture, run := p50(times[0]), p50(times[1]), p50(times[2])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(guest, "guest-ms")
	b.ReportMetric(capture, "capture-ms")
	b.ReportMetric(run, "run-ms")
	b.ReportMetric(guest/capture, "x-capture")
	b.ReportMetric(guest/run, "x-run")
}

// BenchmarkRested measures the same after a pause of 25 ms before each run, with cold CPU
// caches: through the guest, natively with captured output, and by a shell that waits at a
// pipe, which is about the minimum for a server that starts programs on request.
func BenchmarkRested(b *testing.B) {
	g := startGuest(b, guestOptions{binary: buildGuest(b)})
	off := false
	req := &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "/bin/true"}, Stdin: &off}
	shell := exec.Command("/bin/sh", "-c", "while read x; do /bin/true; echo; done")
	in, err := shell.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		b.Fatal(err)
	}
	defer shell.Wait()
	defer in.Close()
	line := []byte("\n")
	ways := []func() error{
		func() error {
			s, err := g.client.Start(context.Background(), req, envd.StartOptions{})
			if err != nil {
				return err
			}
			var r result
			collect(s, &r)
			return r.err
		},
		func() error {
			_, err := exec.Command("/bin/true").Output()
			return err
		},
		func() error {
			if _, err := in.Write(line); err != nil {
				return err
			}
			_, err := out.Read(line)
			return err
		},
	}
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			<-time.NewTimer(25 * time.Millisecond).C
			begin := time.Now()
			if err := way(); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(begin))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"guest-ms", "capture-ms", "told-shell-ms"} {
		b.ReportMetric(p50(times[i]), name)
	}
}

// BenchmarkStdout moves 256 MB from a command's output to the client.
func BenchmarkStdout(b *testing.B) {
	g := startGuest(b, guestOptions{binary: buildGuest(b)})
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		s, err := g.client.Start(context.Background(), shell("head -c "+strconv.Itoa(size)+" /dev/zero"), envd.StartOptions{})
		if err != nil {
			b.Fatal(err)
		}
		var n int
		for {
			ev, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if ev.Data != nil {
				n += len(ev.Data.Stdout)
			}
		}
		if n != size {
			b.Fatalf("%d bytes", n)
		}
	}
}

// BenchmarkIdle reports the binary's size and the resource use of an idle guest: at the
// start, and after a hundred commands.
func BenchmarkIdle(b *testing.B) {
	bin := buildGuest(b)
	for b.Loop() {
		g := startGuest(b, guestOptions{binary: bin})
		g.mustRun(b, "true")
		rss, pss := memoryOf(b, g.cmd.Process.Pid)
		for range 100 {
			g.mustRun(b, "true")
		}
		rss2, pss2 := memoryOf(b, g.cmd.Process.Pid)
		fi, err := os.Stat(bin)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(fi.Size())/1e6, "binary-MB")
		b.ReportMetric(rss, "rss-MB")
		b.ReportMetric(pss, "pss-MB")
		b.ReportMetric(rss2, "rss-used-MB")
		b.ReportMetric(pss2, "pss-used-MB")
	}
}

func memoryOf(b testing.TB, pid int) (rss, pss float64) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		b.Skip("this user may not read the guest's smaps: ", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "Rss:":
			rss = kb / 1024
		case "Pss:":
			pss = kb / 1024
		}
	}
	return rss, pss
}
