package proc

import "testing"

func FuzzDecode(f *testing.F) {
	f.Add([]byte("12 34\n"))
	f.Add([]byte("12"))
	f.Add([]byte("-1 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := Decode(b)
		if ok && p.PID <= 1 {
			t.Errorf("accepted %+v", p)
		}
	})
}
