package child

import "testing"

func FuzzReported(f *testing.F) {
	f.Add([]byte(`{"ready":true}`))
	f.Add([]byte(`{"ready":false,"stage":"x","error":"y","errno":1}`))
	f.Add([]byte("\x00{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := Reported(b); err != nil && len(err.Error()) > 1000 {
			t.Errorf("a report makes a message of %d bytes", len(err.Error()))
		}
	})
}
