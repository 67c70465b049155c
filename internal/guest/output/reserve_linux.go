package output

import "time"

// Reserve keeps output for a client whose stream the guest ended after it sent the bytes up
// to offset. Some of these may not have arrived, so the reservation begins half a log
// earlier, which is more than a connection buffers. When the log is full, the command waits
// for the client, as for a slow reader.
func (l *Log) Reserve(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserve(offset, false)
}

// ReserveOfHost keeps output for the clients of a host whose stream broke at offset, because
// the host may have died. When the log is full, the command waits until a host subscribes.
// Half of the log is more than two connections buffer: from the guest to the host and from
// there to a client.
func (l *Log) ReserveOfHost(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host != nil {
		l.host.Stop()
		l.host = nil
	}
	for r := range l.subs {
		if r.ofHost {
			return // an earlier host died, and its clients have not reconnected yet
		}
	}
	l.reserve(offset, true)
}

func (l *Log) reserve(offset int64, ofHost bool) {
	l.add(Reader{at: offset - int64(l.ring.limit/2), reserved: true, ofHost: ofHost})
}

// claim removes the reservation of a client that continues to read at offset: the latest one
// that begins at or before it. A host that reconnects reads for itself, so it does not remove
// the reservation for its clients. The caller holds the lock.
func (l *Log) claim(offset int64, record bool) {
	var found *Reader
	for r := range l.subs {
		if r.reserved && !(record && r.ofHost) && r.at <= offset && (found == nil || r.at > found.at) {
			found = r
		}
	}
	if found != nil {
		l.remove(func(r *Reader) bool { return r == found })
	}
}

// claimOfHost removes the reservation for a dead host's clients if one of them continues to
// read at or before its offset: the command then waits for that client instead. The caller
// holds the lock.
func (l *Log) claimOfHost(client *Reader) {
	l.remove(func(r *Reader) bool { return r.ofHost && client.at <= r.at })
}

// expireHost starts the expiry of the reservation for a dead host's clients after a host has
// reconnected. The caller holds the lock.
func (l *Log) expireHost() {
	for r := range l.subs {
		if r.ofHost && l.host == nil {
			l.host = time.AfterFunc(reservationTTL, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.host = nil
				l.remove(func(r *Reader) bool { return r.ofHost })
			})
		}
	}
}

// Release removes all reservations.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(func(r *Reader) bool { return r.reserved })
}

// StartExpiry makes reservations expire after reservationTTL. Before that, while the guest
// is quiet or saved, they do not expire.
func (l *Log) StartExpiry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.subs {
		if r.reserved {
			l.clients = time.AfterFunc(reservationTTL, l.Release)
			return
		}
	}
}

// StopExpiry stops the expiry of reservations until StartExpiry.
func (l *Log) StopExpiry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients != nil {
		l.clients.Stop()
		l.clients = nil
	}
}
