package serial

import (
	"io"
	"net"
	"testing"
)

// FuzzMachine: whatever a machine sends after its answer, streams end with the link, and none gets more than its window without being
// read. The control is the first seed, whose bytes arrive.
func FuzzMachine(f *testing.F) {
	frames := func(kinds ...byte) (b []byte) {
		for _, k := range kinds {
			b = appendFrame(b, k, 1, make([]byte, min(5, maxPayload(k, true))))
		}
		return b
	}
	control := appendFrame(appendFrame(nil, data, 1, []byte("fine")), closed, 1, nil)
	f.Add(control)
	f.Add(frames(data, credit, end))
	f.Add(frames(end, data))
	f.Add(frames(packet, padding, packet, closed, closed))
	f.Add(frames(hello))
	f.Add(frames(open))
	f.Add([]byte{data, 0, 255, 255, 0, 0, 0, 1, 7})
	f.Fuzz(func(t *testing.T, sent []byte) {
		opened, arrived := make(chan struct{}), make(chan struct{})
		m := hostile(t, func(w io.Writer) {
			<-opened
			w.Write(sent)
			if string(sent) == string(control) {
				<-arrived // the end of a link cuts its streams
			}
		})
		c, _, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		close(opened)
		got, _ := io.ReadAll(c)
		close(arrived)
		if string(sent) == string(control) && string(got) != "fine" {
			t.Errorf("the control arrived as %q", got)
		}
		if len(got) > len(sent) {
			t.Errorf("%d bytes were sent, and %d arrived", len(sent), len(got))
		}
		<-m.Ended() // the machine closes its port
		if _, _, err := m.Open(); err == nil {
			t.Error("a link that has ended opens streams")
		}
	})
}

// FuzzHello: a machine that answers a hello with anything but the answer gets no link.
func FuzzHello(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(answerTo(make([]byte, helloSize)))
	f.Add(appendFrame(nil, hello, 0, []byte(magic)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		a, b := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			go io.Copy(io.Discard, b)
			b.Write(sent)
			b.Close()
		}()
		if m, err := Dial(t.Context(), a, Config{}); err == nil {
			m.Close()
			t.Errorf("a machine that does not know the nonce was accepted: %q", sent)
		}
		<-done
	})
}
