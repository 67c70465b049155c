package ring

import (
	"errors"
	"slices"
	"testing"
)

func TestPushAndPop(t *testing.T) {
	r := New(3)
	r.Push(1)
	r.Push(2)
	if v, err := r.Pop(); v != 1 || err != nil {
		t.Errorf("Pop gives %d, %v", v, err)
	}
	if r.Len() != 1 {
		t.Errorf("Len is %d, want 1", r.Len())
	}
}

func TestOverflow(t *testing.T) {
	r := New(3)
	for v := 1; v <= 5; v++ {
		r.Push(v)
	}
	if got := r.All(); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("All gives %v, want [3 4 5]", got)
	}
	if v, _ := r.Pop(); v != 3 {
		t.Errorf("Pop gives %d, want 3", v)
	}
	if v, _ := r.Pop(); v != 4 {
		t.Errorf("Pop gives %d, want 4", v)
	}
}

func TestEmpty(t *testing.T) {
	if _, err := New(1).Pop(); !errors.Is(err, ErrEmpty) {
		t.Errorf("got %v, want ErrEmpty", err)
	}
}
