package cache

import (
	"testing"
	"time"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func want(t *testing.T, c *Cache, key, value string, ok bool) {
	t.Helper()
	if v, found := c.Get(key); v != value || found != ok {
		t.Errorf("Get(%q) gives %q, %v; want %q, %v", key, v, found, value, ok)
	}
}

func TestEviction(t *testing.T) {
	c := New(2, 0, time.Now)
	c.Put("a", "1")
	c.Put("b", "2")
	want(t, c, "a", "1", true)
	c.Put("c", "3")
	want(t, c, "b", "", false)
	want(t, c, "a", "1", true)
	want(t, c, "c", "3", true)
	if c.Len() != 2 {
		t.Errorf("Len is %d, want 2", c.Len())
	}
}

func TestUpdate(t *testing.T) {
	c := New(2, 0, time.Now)
	c.Put("a", "1")
	c.Put("b", "2")
	c.Put("a", "9")
	c.Put("c", "3")
	want(t, c, "a", "9", true)
	want(t, c, "b", "", false)
}

func TestExpiry(t *testing.T) {
	k := &clock{time.Unix(1000, 0)}
	c := New(2, time.Minute, k.now)
	c.Put("a", "1")
	k.t = k.t.Add(time.Minute)
	want(t, c, "a", "1", true)
	k.t = k.t.Add(time.Second)
	want(t, c, "a", "", false)
	if c.Len() != 0 {
		t.Errorf("Len is %d, want 0", c.Len())
	}
}

func TestRatio(t *testing.T) {
	c := New(1, 0, time.Now)
	if c.Ratio() != 0 {
		t.Errorf("Ratio of nothing is %v", c.Ratio())
	}
	c.Put("a", "1")
	c.Get("a")
	c.Get("a")
	c.Get("a")
	c.Get("x")
	if c.Ratio() != 0.75 {
		t.Errorf("Ratio is %v, want 0.75", c.Ratio())
	}
}
