package jail

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/sandbox"
)

// plainKernel is a kernel of which a keeper is requested a save.
type plainKernel struct{ launch.Kernel }

func (plainKernel) Shared() bool      { return false }
func (plainKernel) Files() []string   { return []string{"image"} }
func (plainKernel) Save() keeper.Call { return keeper.Call{Method: "save"} }
func (plainKernel) Hold() keeper.Hold {
	return keeper.Hold{Stop: keeper.Call{Method: "stand"}, Resume: keeper.Call{Method: "go"}}
}

// keptMachine is a machine whose keeper is this process: it answers one request, and
// says what it was asked, and when the connection has ended.
func keptMachine(t *testing.T, answer string, asked func()) (m *machine, request <-chan keeper.Request, over <-chan struct{}) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(dir, keeper.SocketName)})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	requests, ended := make(chan keeper.Request, 1), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(requests)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		var q keeper.Request
		if json.Unmarshal(buf[:n], &q) == nil {
			requests <- q
		}
		asked()
		io.WriteString(c, answer)
		for err == nil && n > 0 {
			n, err = c.Read(buf)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return &machine{b: &Backend{cfg: Config{Kernel: plainKernel{}}}, id: api.NewSandboxID(), dir: dir, proc: self, done: make(chan struct{})}, requests, ended
}

// TestHold asks a keeper to hold what it saves: for as long as the connection lasts,
// which ends with a release, with the machine, and with everything that fails.
func TestHold(t *testing.T) {
	const held = `{"ok":true,"held":true,"pausedUs":5}`
	for _, tt := range []struct {
		name, answer string
		want         api.Kind
		then         func(t *testing.T, m *machine, err error)
	}{
		{name: "released", answer: held, then: func(t *testing.T, m *machine, err error) {
			if err := m.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		{name: "ended", answer: held, then: func(t *testing.T, m *machine, err error) {
			m.killed = true
			if err := m.Release(t.Context()); api.KindOf(err) != api.KindUnavailable {
				t.Errorf("release of what has ended: %v", err)
			}
		}},
		{name: "refused", answer: `{"error":"no"}`, want: api.KindInternal},
		{name: "an earlier version", answer: `{"ok":true,"going":true}`, want: api.KindUnsupported},
		{name: "no answer", answer: `{`, want: api.KindUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, request, over := keptMachine(t, tt.answer, func() {})
			saved, err := m.saveMemory(t.Context(), t.TempDir(), sandbox.SaveOptions{Hold: true})
			if q := <-request; q.Save == nil || q.Save.Method != "save" || q.Hold == nil || q.Hold.Stop.Method != "stand" || q.Hold.Resume.Method != "go" {
				t.Errorf("asked for %+v", q)
			}
			if tt.want != "" {
				if api.KindOf(err) != tt.want {
					t.Errorf("%v", err)
				}
				<-over
				return
			}
			if err != nil || saved.Kind != api.SnapshotMemory {
				t.Fatalf("%+v, %v", saved, err)
			}
			select {
			case <-over:
				t.Fatal("the connection has ended, and with it the hold")
			default:
			}
			tt.then(t, m, err)
			<-over
		})
	}
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m, _, over := keptMachine(t, held, cancel)
		if _, err := m.saveMemory(ctx, t.TempDir(), sandbox.SaveOptions{Hold: true}); api.KindOf(err) != api.KindCanceled {
			t.Errorf("%v", err)
		}
		<-over
	})
	t.Run("not held", func(t *testing.T) {
		m, request, over := keptMachine(t, `{"ok":true,"going":true}`, func() {})
		if _, err := m.saveMemory(t.Context(), t.TempDir(), sandbox.SaveOptions{}); err != nil {
			t.Error(err)
		}
		if q := <-request; q.Hold != nil {
			t.Errorf("asked for %+v", q)
		}
		<-over
	})
}
