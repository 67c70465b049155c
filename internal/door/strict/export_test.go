package strict

// Open counts a listener's connections, and the addresses that they are of.
func (l *Listener) Open() (conns, addresses int) {
	l.crowd.mu.Lock()
	defer l.crowd.mu.Unlock()
	return l.crowd.n, len(l.crowd.by)
}
