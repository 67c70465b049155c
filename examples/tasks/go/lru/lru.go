package lru

import "container/list"

// Cache holds a bounded number of values by key.
type Cache struct {
	most  int
	order *list.List // the one used last is in front
	byKey map[string]*list.Element
}

type pair struct{ key, value string }

// New makes a cache of at most this many values.
func New(most int) *Cache {
	return &Cache{most: most, order: list.New(), byKey: map[string]*list.Element{}}
}

// Get finds a value, which counts as a use of it.
func (c *Cache) Get(key string) (string, bool) {
	el, ok := c.byKey[key]
	if !ok {
		return "", false
	}
	c.order.MoveToFront(el)
	return el.Value.(pair).value, true
}

// Put stores a value. The one that was not used for the longest time makes room.
func (c *Cache) Put(key, value string) {
	if el, ok := c.byKey[key]; ok {
		el.Value = pair{key, value}
		c.order.MoveToFront(el)
		return
	}
	if c.order.Len() == c.most {
		oldest := c.order.Front()
		c.order.Remove(oldest)
		delete(c.byKey, oldest.Value.(pair).key)
	}
	c.byKey[key] = c.order.PushFront(pair{key, value})
}

// Len is how many values there are.
func (c *Cache) Len() int { return c.order.Len() }
