//go:build linux

package process

import (
	"fmt"
	"testing"

	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/output"
)

// TestEndsOutliveOutput: the ends of commands are kept even after their output is dropped.
func TestEndsOutliveOutput(t *testing.T) {
	var tb table
	for i := range maxEnds + 10 {
		p := &Process{execID: fmt.Sprint(i), Log: output.NewLog(1 << 20)}
		p.Log.Append(envd.OutputStdout, []byte("some output\n"), true)
		p.Log.Finish(&envd.EndEvent{ExitCode: int32(i % 256)})
		tb.add(p)
		tb.end(p)
	}
	if n := len(tb.finished); n != maxEnds {
		t.Errorf("%d ends are kept, want %d", n, maxEnds)
	}
	if n := len(tb.finished) - tb.forgotten; n != maxFinished {
		t.Errorf("the output of %d is kept, want %d", n, maxFinished)
	}
	bytes := 0
	for i, p := range tb.finished {
		if (i < tb.forgotten) != (p.Log.Size() == 0) {
			t.Fatalf("%d of %d: %d bytes", i, tb.forgotten, p.Log.Size())
		}
		bytes += p.Log.Size()
	}
	if bytes != tb.bytes {
		t.Errorf("%d bytes are kept, %d counted", bytes, tb.bytes)
	}
	p, err := tb.lookup(nil, "20")
	if err != nil {
		t.Fatalf("an old command: %v", err)
	}
	r, err := p.Subscribe(0, false)
	if err != nil || r.Offset() != 12 {
		t.Fatalf("its reader begins at %+v, %v; 12 bytes are gone", r, err)
	}
	if _, _, n, end := r.Read(make([]byte, 100)); n != 0 || end == nil || end.ExitCode != 20 {
		t.Errorf("it reads %d bytes and %+v", n, end)
	}
	if _, err := tb.lookup(nil, "5"); err == nil {
		t.Error("more ends are kept than the bound")
	}
}
