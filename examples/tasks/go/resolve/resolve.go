package resolve

import (
	"fmt"
	"strings"

	"example.org/lookup/lru"
)

// Resolver asks for a name at most once while it is remembered.
type Resolver struct {
	ask   func(name string) (string, error)
	cache *lru.Cache
}

// New makes a resolver that remembers a number of names.
func New(remember int, ask func(string) (string, error)) *Resolver {
	return &Resolver{ask: ask, cache: lru.New(remember)}
}

// Find gives a name's address. Names are the same in any case.
func (r *Resolver) Find(name string) (string, error) {
	key := strings.ToLower(name)
	if address, ok := r.cache.Get(key); ok {
		return address, nil
	}
	address, err := r.ask(key)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	r.cache.Put(key, address)
	return address, nil
}
