//go:build linux

package birth

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func pair(t *testing.T) (host, guest *Control) {
	t.Helper()
	host, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if guest, err = NewControl(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

func TestBirth(t *testing.T) {
	host, guest := pair(t)
	ctx := t.Context()
	if err := host.Configure(ctx, Config{Sandbox: "sb", Env: map[string]string{"A": strings.Repeat("x", 100_000)}}); err != nil {
		t.Fatal(err)
	}
	cfg, err := guest.AwaitConfig(ctx)
	if err != nil || cfg.Sandbox != "sb" || len(cfg.Env["A"]) != 100_000 {
		t.Fatal(cfg.Sandbox, err)
	}
	if err := guest.Answer(ctx, Report{Error: strings.Repeat("e", 10_000), Stage: "s", Errno: 7}); err != nil {
		t.Fatal(err)
	}
	r, err := host.AwaitReport(ctx)
	if err != nil || r.Ready || r.Stage != "s" || r.Errno != 7 || len(r.Error) > 1<<10 {
		t.Fatalf("%+v %v", r, err)
	}
	if err := host.Go(ctx); err != nil {
		t.Fatal(err)
	}
	if claim, err := guest.AwaitGo(ctx); err != nil || claim != nil {
		t.Fatal(claim, err)
	}
	want := Claim{Env: map[string]string{"TOKEN": strings.Repeat("x", 60_000)}}
	packet, err := want.Packet()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.sendRaw(ctx, packet); err != nil {
		t.Fatal(err)
	}
	if claim, err := guest.AwaitGo(ctx); err != nil || claim == nil || claim.Env["TOKEN"] != want.Env["TOKEN"] {
		t.Fatal(claim, err)
	}
}

func TestBirthRefusals(t *testing.T) {
	host, guest := pair(t)
	ctx := t.Context()
	if err := host.Configure(ctx, Config{Hostname: strings.Repeat("x", MaxPacket)}); err == nil {
		t.Error("a packet above the bound was sent")
	}
	if err := guest.sendRaw(ctx, make([]byte, maxReport+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := host.AwaitReport(ctx); err == nil {
		t.Error("a report above the bound was taken")
	}
	guest.sendRaw(ctx, []byte("{"))
	if _, err := host.AwaitReport(ctx); err == nil {
		t.Error("a report that is no JSON was taken")
	}
	for _, bad := range []string{"no", "go{", "goo", `{"env":{}}`} {
		host.sendRaw(ctx, []byte(bad))
		if claim, err := guest.AwaitGo(ctx); err == nil {
			t.Errorf("%q was taken for go: %+v", bad, claim)
		}
	}
	if _, err := (Claim{Env: map[string]string{"A": strings.Repeat("x", MaxPacket)}}).Packet(); err == nil {
		t.Error("a claim above the bound was made")
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := host.AwaitReport(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent guest: %v", err)
	}
	host.Close()
	if _, err := guest.AwaitGo(ctx); err != io.EOF {
		t.Errorf("the host's end: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := NewControl(r); err == nil {
		t.Error("a pipe was taken for a control socket")
	}
}
