//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The benchmarks compare builds of runsc: HORTUS_RUNSC names another one.
//
//	go test -run '^$' -bench . -count 5

func BenchmarkRun(b *testing.B) {
	r := newRig(b)
	n := 0
	for b.Loop() {
		n++
		r.run(b, "run", r.bundle("end"), fmt.Sprintf("run-%06d", n))
	}
}

func BenchmarkRestore(b *testing.B) {
	r := newRig(b)
	image := filepath.Join(r.dir, "image")
	r.run(b, "run", "--detach", r.bundle("sleep"), "original")
	r.run(b, "checkpoint", "--image-path="+image, "original")
	n := 0
	for b.Loop() {
		n++
		id := fmt.Sprintf("restored-%06d", n)
		r.run(b, "restore", "--detach", r.bundle("sleep"), "--image-path="+image, id)
		b.StopTimer()
		r.run(b, "delete", "--force", id)
		b.StartTimer()
	}
}

// BenchmarkIdle reports the proportional memory (PSS) of an idle sandbox: of its sentry, its
// gofer, and the stubs that map the guest's memory.
func BenchmarkIdle(b *testing.B) {
	const count = 30
	r := newRig(b)
	var ids []string
	defer func() {
		for _, id := range ids {
			r.run(b, "delete", "--force", id)
		}
	}()
	for n := range count {
		id := fmt.Sprintf("idle-%06d", n)
		r.run(b, "run", "--detach", r.bundle("sleep"), id)
		ids = append(ids, id)
	}
	for b.Loop() {
		time.Sleep(5 * time.Second) // idle
	}
	for role, kilobytes := range r.memory(b, ids) {
		b.ReportMetric(float64(kilobytes)/1024/count, role+"-MB")
	}
	b.ReportMetric(0, "ns/op")
}

// memory returns the sums of the proportional set sizes of the sandboxes' processes, in
// kilobytes, by the kind of process.
func (r *rig) memory(b *testing.B, ids []string) map[string]int {
	type process struct {
		parent int
		args   []string
	}
	all := map[int]process{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		line, _ := os.ReadFile(dir + "/cmdline")
		all[pid] = process{parent, strings.Split(string(line), "\x00")}
	}
	role := func(pid int) string {
		p := all[pid]
		if !strings.HasPrefix(p.args[0], "runsc-") || !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(p.args, id) }) ||
			!slices.ContainsFunc(p.args, func(a string) bool { return strings.Contains(a, r.dir) }) {
			return ""
		}
		return strings.TrimPrefix(p.args[0], "runsc-")
	}
	pss := regexp.MustCompile(`(?m)^Pss:\s+(\d+) kB$`)
	sums := map[string]int{}
	for pid := range all {
		of := role(pid)
		for up := all[pid].parent; of == "" && up > 1; up = all[up].parent {
			if role(up) != "" {
				of = "stubs"
			}
		}
		if of == "" {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		if m := pss.FindSubmatch(text); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			sums[of] += n
			sums["all"] += n
		}
	}
	return sums
}
