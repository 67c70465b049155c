package keeper

import (
	"encoding/json"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// pair returns the two ends of a socket of packets.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		if ends[i], err = conn(fd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// kept is a keeper whose kernel and guest write down what they are told. A call of the
// method that is named fails.
func kept(t *testing.T, fails string) (k *keeper, deeds <-chan string) {
	t.Helper()
	said := make(chan string, 16)
	path := filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var q struct{ Method string }
			if json.NewDecoder(c).Decode(&q) == nil {
				said <- q.Method
				json.NewEncoder(c).Encode(map[string]any{"success": q.Method != fails, "err": "no room", "result": map[string]any{"Names": []string{strings.Repeat("base", map[bool]int{true: 1000, false: 1}[q.Method == "long"])}}})
			}
			c.Close()
		}
	}()
	ours, guest := pair(t)
	k = &keeper{cfg: Config{Plan: Plan{Control: path}}, guest: ours, quiesced: make(chan birth.Report, 1)}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := guest.Read(buf)
			if err != nil || n == 0 {
				return
			}
			switch said <- string(buf[:n]); string(buf[:n]) {
			case birth.QuietPacket:
				k.quiesced <- birth.Report{Quiet: true}
			}
		}
	}()
	return k, said
}

// TestSave has a keeper save, with and without a hold, and looks in which order the
// guest and its kernel hear of it: what is held continues when who asked for it is gone,
// and not before; what failed continues at once.
func TestSave(t *testing.T) {
	hold := &Hold{Stop: Call{Method: "stand"}, Resume: Call{Method: "go"}}
	for _, tt := range []struct {
		name, fails string
		hold        *Hold
		before      []string // the answer
		want        Answer
		after       []string // the end of who asked
		with        Request
	}{
		{name: "goes on", before: []string{birth.QuietPacket, "save", birth.OnPacket}, want: Answer{OK: true, Going: true}},
		{name: "held", hold: hold, before: []string{birth.QuietPacket, "stand", "save"}, want: Answer{OK: true, Held: true}, after: []string{"go", birth.OnPacket}},
		{name: "not saved", fails: "save", before: []string{birth.QuietPacket, "save", birth.OnPacket}, want: Answer{Error: "no room", Going: true}},
		{name: "not saved, held", fails: "save", hold: hold, before: []string{birth.QuietPacket, "stand", "save", "go", birth.OnPacket}, want: Answer{Error: "no room", Going: true}},
		{name: "bases", with: Request{Prepare: &Call{Method: "prepare"}, Undo: &Call{Method: "undo"}, Bases: &Call{Method: "bases"}},
			before: []string{birth.QuietPacket, "prepare", "save", "bases", birth.OnPacket}, want: Answer{OK: true, Going: true, Bases: []string{"base"}}},
		{name: "undone", fails: "save", with: Request{Prepare: &Call{Method: "prepare"}, Undo: &Call{Method: "undo"}},
			before: []string{birth.QuietPacket, "prepare", "save", "undo", birth.OnPacket}, want: Answer{Error: "no room", Going: true}},
		{name: "bases are not told", fails: "bases", with: Request{Undo: &Call{Method: "undo"}, Bases: &Call{Method: "bases"}},
			before: []string{birth.QuietPacket, "save", "bases", "undo", birth.OnPacket}, want: Answer{Error: "no room", Going: true}},
		{name: "does not stand", fails: "stand", hold: hold, before: []string{birth.QuietPacket, "stand", birth.OnPacket}, want: Answer{Error: "no room", Going: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, deeds := kept(t, tt.fails)
			theirs, ours := pair(t)
			over := make(chan struct{})
			go func() {
				defer close(over)
				k.answer(theirs)
				theirs.Close()
			}()
			tt.with.Save, tt.with.Hold = &Call{Method: "save"}, tt.hold
			q, err := json.Marshal(tt.with)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ours.Write(q); err != nil {
				t.Fatal(err)
			}
			did := func(want []string) {
				t.Helper()
				var got []string
				for range want {
					got = append(got, <-deeds)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%q; want %q", got, want)
				}
			}
			did(tt.before)
			buf := make([]byte, 4096)
			n, err := ours.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			var a Answer
			if err := json.Unmarshal(buf[:n], &a); err != nil {
				t.Fatal(err)
			}
			if a.PausedUS <= 0 {
				t.Errorf("it stood still for %d us", a.PausedUS)
			}
			if a.PausedUS = 0; !reflect.DeepEqual(a, tt.want) {
				t.Errorf("%+v; want %+v", a, tt.want)
			}
			select {
			case d := <-deeds:
				t.Errorf("%q came before who asked was gone", d)
			default:
			}
			ours.Close()
			did(tt.after)
			<-over
		})
	}
	// Who asked is gone before the answer.
	t.Run("nobody hears it", func(t *testing.T) {
		k, deeds := kept(t, "")
		theirs, ours := pair(t)
		q, err := json.Marshal(Request{Save: &Call{Method: "save"}, Hold: hold})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(q); err != nil {
			t.Fatal(err)
		}
		ours.Close()
		k.answer(theirs)
		for _, want := range []string{birth.QuietPacket, "stand", "save", "go", birth.OnPacket} {
			if got := <-deeds; got != want {
				t.Errorf("%q; want %q", got, want)
			}
		}
	})
}

// TestAlone: one call is made without a save, and the guest is not disturbed.
func TestAlone(t *testing.T) {
	for _, tt := range []struct {
		fails, method string
		want          Answer
	}{
		{"", "thaw", Answer{OK: true, Going: true, Result: json.RawMessage(`{"Names":["base"]}`)}},
		{"thaw", "thaw", Answer{Error: "no room", Going: true}},
		{"", "long", Answer{Error: "the result is too long", Going: true}},
	} {
		k, deeds := kept(t, tt.fails)
		theirs, ours := pair(t)
		q, err := json.Marshal(Request{Alone: &Call{Method: tt.method}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(q); err != nil {
			t.Fatal(err)
		}
		k.answer(theirs)
		buf := make([]byte, 4096)
		n, err := ours.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		var a Answer
		if err := json.Unmarshal(buf[:n], &a); err != nil || !reflect.DeepEqual(a, tt.want) {
			t.Errorf("%+v, %v; want %+v", a, err, tt.want)
		}
		if got := <-deeds; got != tt.method || len(deeds) != 0 {
			t.Errorf("%q, and %d more", got, len(deeds))
		}
	}
}

// TestSaveThatNobodyHears: who asked is gone before the answer, so that nobody knows what the save
// has prepared.
func TestSaveThatNobodyHears(t *testing.T) {
	for _, tt := range []struct {
		name string
		with Request
		want []string
	}{
		{name: "goes on", with: Request{}, want: []string{birth.QuietPacket, "prepare", "save", birth.OnPacket, "undo"}},
		{name: "held", with: Request{Hold: &Hold{Stop: Call{Method: "stand"}, Resume: Call{Method: "go"}}},
			want: []string{birth.QuietPacket, "stand", "prepare", "save", "undo", "go", birth.OnPacket}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, deeds := kept(t, "")
			theirs, ours := pair(t)
			tt.with.Save, tt.with.Prepare, tt.with.Undo = &Call{Method: "save"}, &Call{Method: "prepare"}, &Call{Method: "undo"}
			q, err := json.Marshal(tt.with)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ours.Write(q); err != nil {
				t.Fatal(err)
			}
			ours.Close()
			over := make(chan struct{})
			go func() {
				defer close(over)
				k.answer(theirs)
				theirs.Close()
			}()
			var got []string
			for range tt.want {
				got = append(got, <-deeds)
			}
			<-over
			// The guest and the kernel are told over two sockets.
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q; want %q", got, tt.want)
			}
		})
	}
}
