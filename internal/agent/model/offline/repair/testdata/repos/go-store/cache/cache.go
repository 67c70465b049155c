// Package cache keeps the values that were used last.
package cache

import (
	"container/list"
	"time"
)

type entry struct {
	key     string
	value   string
	expires time.Time
}

// Cache forgets what was not used for the longest time.
type Cache struct {
	limit int
	ttl   time.Duration
	now   func() time.Time
	order *list.List
	items map[string]*list.Element

	hits, misses int
}

// New makes a cache of at most limit values, each good for ttl; 0 is for ever.
func New(limit int, ttl time.Duration, now func() time.Time) *Cache {
	return &Cache{limit: limit, ttl: ttl, now: now, order: list.New(), items: map[string]*list.Element{}}
}

// Get finds a value.
func (c *Cache) Get(key string) (string, bool) {
	el, ok := c.items[key]
	if !ok {
		c.misses++
		return "", false
	}
	e := el.Value.(*entry)
	if c.ttl > 0 && c.now().After(e.expires) {
		c.remove(el)
		c.misses++
		return "", false
	}
	c.order.MoveToFront(el)
	c.hits++
	return e.value, true
}

// Put stores a value.
func (c *Cache) Put(key, value string) {
	expires := c.now().Add(c.ttl)
	if el, ok := c.items[key]; ok {
		e := el.Value.(*entry)
		e.value, e.expires = value, expires
		c.order.MoveToFront(el)
		return
	}
	c.items[key] = c.order.PushFront(&entry{key, value, expires})
	if c.order.Len() > c.limit {
		c.remove(c.order.Back())
	}
}

func (c *Cache) remove(el *list.Element) {
	c.order.Remove(el)
	delete(c.items, el.Value.(*entry).key)
}

// Len is how many values there are.
func (c *Cache) Len() int { return len(c.items) }

// Ratio is the share of lookups that found something.
func (c *Cache) Ratio() float64 {
	total := c.hits + c.misses
	if total == 0 {
		return 0
	}
	return float64(c.hits) / float64(total)
}
