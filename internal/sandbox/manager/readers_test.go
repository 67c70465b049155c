package manager_test

import (
	"testing"
	"time"

	"hortus.dev/api"
)

// TestStalledReaderIsNone: who has an event and asks for no other is not waited for. Who
// waits for one is, however long it takes.
func TestStalledReaderIsNone(t *testing.T) {
	var clock wallClock
	w := openSaving(t, t.TempDir(), savingOptions{now: clock.now})
	s := w.create(t, api.CreateSandbox{})
	stream, err := w.Guests.StartExec(t.Context(), s.ID, api.ExecRequest{Args: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(); err != nil {
		t.Fatal(err)
	}
	if n := w.Guests.Streams(); n != 1 {
		t.Errorf("%d streams are read, of one", n)
	}
	clock.jump(31 * time.Second)
	if n := w.Guests.Streams(); n != 0 {
		t.Errorf("%d streams are read, of one that nobody asks for more", n)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := stream.Next() // which has nothing to say
		ended <- err
	}()
	eventually(t, "it is read again", func() bool { return w.Guests.Streams() == 1 })
	clock.jump(time.Hour)
	if n := w.Guests.Streams(); n != 1 {
		t.Errorf("%d streams are read, of one that waits for its command", n)
	}
	clock.jump(-time.Hour - 31*time.Second)
	if _, _, err := w.Sandboxes.Kill(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the command has printed something")
	}
	if n := w.Guests.Streams(); n != 0 {
		t.Errorf("%d streams are read after their end", n)
	}
}
