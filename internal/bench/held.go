package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// holder holds so many MB that no compression makes smaller, every page of them
// touched, and then does nothing.
const holder = `
import os, sys, time
size = int(sys.argv[1]) << 20
held = bytearray(size)
view = memoryview(held)
for at in range(0, size, 1 << 20):
    view[at:at + (1 << 20)] = os.urandom(1 << 20)
print("held", flush=True)
while True:
    time.sleep(3600)
`

// roomy is a request for a sandbox with so many MB for its programs.
func roomy(backend string, mb int) api.CreateSandbox {
	req := request(backend)
	if need := int64(mb+512) << 20; need > api.DefaultLimits().MemoryBytes {
		req.Limits.MemoryBytes = need
	}
	return req
}

// held makes a sandbox in which a process holds so many MB.
func (r *run) held(ctx context.Context, backend string, mb int) (api.SandboxID, error) {
	s, err := cold.create(ctx, r.Sandboxes, roomy(backend, mb))
	if err != nil {
		return "", err
	}
	if _, _, err := r.until(ctx, s.ID, python(holder, strconv.Itoa(mb)), "held"); err != nil {
		r.kill(s.ID)
		return "", err
	}
	return s.ID, nil
}

// savers lists the backends whose memory can be saved. Of each other it reports a
// row that says why there are no figures.
func (r *run) savers(ctx context.Context, name string) (out []string) {
	for _, report := range r.Sandboxes.Reports(ctx) {
		for _, backend := range r.backends {
			if report.Backend != backend {
				continue
			}
			if a, ok := report.Has(api.CapCheckpoint); !ok {
				r.report(admin.BenchRow{Name: name, Backend: backend, Note: "not measured: " + a.Reason})
				continue
			}
			out = append(out, backend)
		}
	}
	return out
}

// spare is what a measurement leaves of this machine's memory, in MB.
const spare = 1024

// fits returns why this machine has no space for so many MB now; empty when it has.
func fits(mb int) string {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "not measured: " + err.Error()
	}
	if free := available(b); free < mb+spare {
		return fmt.Sprintf("not measured: it needs %d MB and %d to spare, and %d MB are available", mb, spare, free)
	}
	return ""
}

// available reads MemAvailable of /proc/meminfo, in MB.
func available(meminfo []byte) int {
	for line := range bytes.Lines(meminfo) {
		if v, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
			if f := bytes.Fields(v); len(f) > 0 {
				kb, _ := strconv.Atoi(string(f[0])) // 0 is no space
				return kb / 1024
			}
		}
	}
	return 0
}
