package jail_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
)

func has(t *testing.T, e *env, c api.Capability) {
	t.Helper()
	if a, ok := e.Probe(context.Background()).Has(c); !ok || strings.HasPrefix(a.Reason, "best effort") {
		t.Skipf("%s: %s", c, a.Reason)
	}
}

func TestProbe(t *testing.T) {
	e := newEnv(t)
	r := e.Probe(context.Background())
	seen := map[api.Capability]int{}
	for _, a := range r.Abilities {
		seen[a.Capability]++
		t.Logf("%-16s %v %s %s", a.Capability, a.OK, a.Reason, a.Fix)
		if !a.OK && a.Reason == "" {
			t.Errorf("%s is missing without a reason", a.Capability)
		}
	}
	for _, c := range []api.Capability{api.CapStart, api.CapIsolated, api.CapRootIdentity, api.CapUserIdentity, api.CapPause, api.CapLimitCPU,
		api.CapLimitCPUTime, api.CapLimitMemory, api.CapLimitProcs, api.CapLimitDisk, api.CapLimitDiskRate, api.CapLimitOutput,
		api.CapPrivateFiles, api.CapNoNetwork, api.CapCheckpoint, api.CapWorkspace, api.CapEgress} {
		if seen[c] != 1 {
			t.Errorf("%s is reported %d times", c, seen[c])
		}
	}
	if _, ok := r.Has(api.CapStart); !ok {
		t.Error("it cannot start here")
	}
	nothingLeft(t, e)
}

func TestMemoryLimit(t *testing.T) {
	e := newEnv(t)
	has(t, e, api.CapLimitMemory)
	m, _ := e.start(t, func(s *sandbox.Spec) { s.Limits.MemoryBytes = 64 << 20 })
	rep := ask(t, m, request{Args: []string{"/bin/sh", "-c", "head -c 200M /dev/zero | tail -c 199M | wc -c"}})
	st, err := m.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if st.MemoryKills < 1 || strings.TrimSpace(rep.Out) == fmt.Sprint(199<<20) {
		t.Errorf("no kill for memory: %+v, %+v", st, rep)
	}
	if st.MemoryPeakBytes > 64<<20 {
		t.Errorf("the peak is %d bytes", st.MemoryPeakBytes)
	}
	sh(t, m, "user", "true")
}

func TestProcessLimit(t *testing.T) {
	e := newEnv(t)
	has(t, e, api.CapLimitProcs)
	if a, _ := e.Probe(context.Background()).Has(api.CapLimitProcs); !strings.HasPrefix(a.Reason, "cgroup") {
		t.Skip("the guest of this test sets no resource limits: " + a.Reason)
	}
	m, _ := e.start(t, func(s *sandbox.Spec) { s.Limits.Processes = 40 })
	// The group leaves room for the guest's own threads; commands are kept below
	// the limit itself by the guest, which this test's guest does not do.
	const most = 40 + birth.Reserve
	rep := ask(t, m, request{Args: []string{"/bin/sh", "-c", "for i in $(seq 300); do sleep 60 >/dev/null 2>&1 & done; :"}})
	st, err := m.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rep.Err, "fork") || st.Processes > most {
		t.Errorf("%d processes; %s", st.Processes, rep.Err)
	}
}

func TestDiskLimit(t *testing.T) {
	e := newEnv(t)
	m, _ := e.start(t, func(s *sandbox.Spec) { s.Limits.DiskBytes = 8 << 20 })
	for _, dir := range []string{"/workspace", "/tmp", "/dev/shm", "/var/tmp", "/home/user"} {
		rep := ask(t, m, request{Args: []string{"/bin/sh", "-c", "dd if=/dev/zero of=" + dir + "/f bs=1M count=20; r=$?; stat -c %s " + dir + "/f; rm -f " + dir + "/f; exit $r"}})
		if rep.Code == 0 || !strings.Contains(rep.Err, "No space") {
			t.Errorf("%s: %+v", dir, rep)
		}
	}
	rep := ask(t, m, request{Args: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 4000 ] && : > /tmp/f$i; do i=$((i+1)); done; echo $i"}})
	if strings.TrimSpace(rep.Out) == "4000" {
		t.Error("4000 files fit into a disk of 2048 inodes")
	}
	st, err := m.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if st.DiskTotalBytes != 8<<20 {
		t.Errorf("the disk has %d bytes", st.DiskTotalBytes)
	}
}

func TestCPULimits(t *testing.T) {
	e := newEnv(t)
	has(t, e, api.CapLimitCPUTime)
	m, _ := e.start(t, func(s *sandbox.Spec) { s.Limits.CPUTimeMS = 300; s.Asked.CPUTime = true })
	try(m, request{Args: []string{"/bin/sh", "-c", "while :; do :; done"}})
	select {
	case <-m.Done():
	case <-time.After(patience.Of(30 * time.Second)):
		t.Fatal("the sandbox lives on after its processor time")
	}
	if m.Cause() != api.CauseCPUTime {
		t.Errorf("the cause is %q", m.Cause())
	}
}

func TestPause(t *testing.T) {
	e := newEnv(t)
	has(t, e, api.CapPause)
	ctx := context.Background()
	m, _ := e.start(t)
	c, err := m.Link().Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if err := m.Pause(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Link().Open(ctx); api.KindOf(err) != api.KindConflict {
		t.Errorf("a stream to a paused sandbox: %v", err)
	}
	before, err := m.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Resume(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, m, "user", "true")
	after, _ := m.Stats(ctx)
	if after.CPUTimeMS < before.CPUTimeMS {
		t.Errorf("processor time went from %d to %d ms", before.CPUTimeMS, after.CPUTimeMS)
	}
	// A paused one can be killed.
	if err := m.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	kill(t, m)
}

func TestAskedForMissing(t *testing.T) {
	e := newEnv(t)
	spec := sandbox.Spec{ID: api.NewSandboxID(), Layers: nil, Limits: limits(), Hostname: "x"}
	for _, c := range []struct {
		name   string
		change func(*sandbox.Spec)
		want   api.Kind
	}{
		{"rate", func(s *sandbox.Spec) { s.Asked.DiskRate = true; s.Limits.DiskWriteRate = 1 << 20 }, api.KindUnsupported},
		{"no layer", func(s *sandbox.Spec) {}, api.KindInvalid},
		{"unknown layer", func(s *sandbox.Spec) { s.Layers = append(s.Layers, testDigest[:68]+"1") }, api.KindNotFound},
		{"id", func(s *sandbox.Spec) { s.ID = "../x" }, api.KindInvalid},
		{"negative", func(s *sandbox.Spec) { s.Limits.MemoryBytes = -1 }, api.KindInvalid},
		{"host name", func(s *sandbox.Spec) { s.Hostname = "" }, api.KindInvalid},
	} {
		s := spec
		c.change(&s)
		if _, err := e.Start(context.Background(), s); api.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	nothingLeft(t, e)
}
