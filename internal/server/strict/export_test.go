package strict

// Open counts a listener's connections, and the addresses that they are of.
func (l *Listener) Open() (conns, addresses int) {
	l.connections.mu.Lock()
	defer l.connections.mu.Unlock()
	return l.connections.n, len(l.connections.by)
}
