package lru

import "testing"

func TestTheOldestMakesRoom(t *testing.T) {
	c := New(2)
	c.Put("a", "1")
	c.Put("b", "2")
	c.Get("a")
	c.Put("c", "3")
	if _, ok := c.Get("b"); ok {
		t.Error("b is there still, and was used before all others")
	}
	for _, key := range []string{"a", "c"} {
		if _, ok := c.Get(key); !ok {
			t.Errorf("%s is gone", key)
		}
	}
}

func TestAnUpdateIsAUse(t *testing.T) {
	c := New(2)
	c.Put("a", "1")
	c.Put("b", "2")
	c.Put("a", "3")
	c.Put("c", "4")
	if v, _ := c.Get("a"); v != "3" {
		t.Errorf("a is %q, want 3", v)
	}
	if c.Len() != 2 {
		t.Errorf("there are %d values, want 2", c.Len())
	}
}
