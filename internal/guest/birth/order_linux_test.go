package birth

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// with sends a packet with n descriptors of the null device.
func (c *Control) with(t *testing.T, data string, n int) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fds := make([]int, n)
	for i := range fds {
		fds[i] = int(null.Fd())
	}
	if _, _, err := c.conn.(*net.UnixConn).WriteMsgUnix([]byte(data), unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
}

func TestOrders(t *testing.T) {
	host, guest := pair(t)
	ctx := t.Context()
	claim := Claim{Env: map[string]string{"A": "b"}}
	packet, err := claim.Packet()
	if err != nil {
		t.Fatal(err)
	}
	self := Self{Sandbox: "sb", Hostname: "h", Seed: make([]byte, minSeed), Nonce: "n", Env: map[string]string{"A": strings.Repeat("x", 60_000)}}
	raw, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		packet string
		ok     func(Order) bool
	}{
		{GoPacket, func(o Order) bool { return o.Go && o.Claim == nil }},
		{string(packet), func(o Order) bool { return o.Go && o.Claim.Env["A"] == "b" }},
		{QuietPacket, func(o Order) bool { return o.Quiet }},
		{OnPacket, func(o Order) bool { return o.On }},
		{SelfPacket + string(raw), func(o Order) bool { return o.Self != nil && o.Self.Nonce == "n" && len(o.Self.Env["A"]) == 60_000 }},
	} {
		if err := host.sendRaw(ctx, []byte(tc.packet)); err != nil {
			t.Fatal(err)
		}
		if o, err := guest.AwaitOrder(ctx); err != nil || !tc.ok(o) {
			t.Errorf("%.20s: %+v %v", tc.packet, o, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := host.Stream(ctx, w); err != nil {
		t.Fatal(err)
	}
	w.Close()
	o, err := guest.AwaitOrder(ctx)
	if err != nil || o.Stream == nil {
		t.Fatalf("%+v %v", o, err)
	}
	if flags, err := unix.FcntlInt(o.Stream.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a stream is left to commands: flags %d, %v", flags, err)
	}
	o.Stream.WriteString("x")
	o.Stream.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "x" {
		t.Errorf("%q %v", got, err)
	}
	host.Close()
	if _, err := guest.AwaitOrder(ctx); err != io.EOF {
		t.Errorf("the host's end: %v", err)
	}
}

// An invalid order is refused, and its descriptors are closed.
func TestOrdersRefused(t *testing.T) {
	host, guest := pair(t)
	ctx := t.Context()
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := open()
	for _, tc := range []struct {
		packet string
		fds    int
	}{
		{StreamPacket, 0}, {StreamPacket, 2}, {StreamPacket, 4}, {StreamPacket, 60}, {QuietPacket, 1}, {OnPacket, 1}, {GoPacket, 1},
		{"streams", 1}, {"quiet ", 0}, {"on\n", 0}, {"nonsense", 0}, {"{}", 0}, {SelfPacket, 0}, {SelfPacket + "{}", 0},
		{SelfPacket + `{"sandbox":"a","hostname":"b","seed":"AAAA"}`, 0}, {SelfPacket + `{"sandbox":"a","seed":"AAAAAAAAAAAAAAAAAAAAAAAA"}`, 0},
		{strings.Repeat("x", MaxPacket+1), 0}, {strings.Repeat("x", MaxPacket+1), 1},
	} {
		host.with(t, tc.packet, tc.fds)
		if o, err := guest.AwaitOrder(ctx); err == nil || err == io.EOF || o != (Order{}) {
			t.Errorf("%.20q with %d descriptors: %+v %v", tc.packet, tc.fds, o, err)
		}
	}
	if after := open(); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

func TestBecome(t *testing.T) {
	host, guest := pair(t)
	ctx := t.Context()
	for _, r := range []Report{{Quiet: true}, {Ready: true, Nonce: "old"}, {Ready: true, Nonce: "new"}, {Nonce: "new", Stage: "hostname", Error: "no"}, {Quiet: true}, {Error: "no"}} {
		if err := guest.Answer(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	self := Self{Nonce: "new"}
	if err := host.Become(ctx, self); err != nil {
		t.Error(err)
	}
	if err := host.Become(ctx, self); err == nil || !strings.Contains(err.Error(), "hostname") {
		t.Errorf("a refusal: %v", err)
	}
	if err := host.Quiet(ctx); err != nil {
		t.Error(err)
	}
	if err := host.Quiet(ctx); err == nil {
		t.Error("something else was taken for quiet")
	}
}

func FuzzOrder(f *testing.F) {
	for _, s := range []string{GoPacket, GoPacket + `{"env":{"A":"b"}}`, QuietPacket, OnPacket, SelfPacket + `{"sandbox":"a","hostname":"b","seed":"AAAAAAAAAAAAAAAAAAAAAAAA"}`, StreamPacket} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parseOrder(data)
		n := 0
		for _, set := range []bool{o.Go, o.Quiet, o.On, o.Self != nil} {
			if set {
				n++
			}
		}
		if (err == nil) != (n == 1) || o.Stream != nil || (o.Claim != nil && !o.Go) {
			t.Errorf("%q: %+v %v", data, o, err)
		}
		if o.Self != nil && (len(o.Self.Seed) < minSeed || o.Self.Sandbox == "" || o.Self.Hostname == "") {
			t.Errorf("%q: %+v", data, o.Self)
		}
	})
}
