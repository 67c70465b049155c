package resolve

import "testing"

func TestFindRemembers(t *testing.T) {
	asked := 0
	r := New(2, func(name string) (string, error) {
		asked++
		return "10.0.0.1", nil
	})
	for i := 0; i < 3; i++ {
		if a, err := r.Find("Example.org"); a != "10.0.0.1" || err != nil {
			t.Fatalf("got %q, %v", a, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
}
