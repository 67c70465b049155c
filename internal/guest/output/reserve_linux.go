package output

import "time"

// Reserve keeps output for a client whose stream the guest ended. The client received
// the bytes up to offset at most: some of them may not have arrived, and half of the log
// is more than a connection holds. The command waits for the client when the log is full,
// as it would for a slow reader.
func (l *Log) Reserve(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserve(offset, false)
}

// ReserveOfHost keeps output for the clients of a host whose stream broke behind offset,
// because the host may have died. The command waits when the log is full for as long as
// no host subscribes. Half of the log is more than two connections hold, from here to the
// host and from there to a client.
func (l *Log) ReserveOfHost(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.host != nil {
		l.host.Stop()
		l.host = nil
	}
	for r := range l.subs {
		if r.ofHost {
			return // since an earlier host died, whose clients have not come back yet
		}
	}
	l.reserve(offset, true)
}

func (l *Log) reserve(offset int64, ofHost bool) {
	l.add(Reader{at: offset - int64(l.ring.limit/2), reserved: true, ofHost: ofHost})
}

// claim removes the reservation of a client that reads on from offset: the latest one
// that begins no later. A host that is back reads for itself, not for its clients. The
// caller holds the lock.
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

// claimOfHost removes what is reserved for a dead host's clients when one of them reads
// on from before it: the command waits for that client too. The caller holds the lock.
func (l *Log) claimOfHost(client *Reader) {
	l.remove(func(r *Reader) bool { return r.ofHost && client.at <= r.at })
}

// expireHost removes what is reserved for a dead host's clients if none comes back in
// time: their host is back. The caller holds the lock.
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

// StartExpiry makes reservations expire. Before that, in a guest that is quiet, they last
// for as long as its state is saved.
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

// StopExpiry makes reservations last until StartExpiry.
func (l *Log) StopExpiry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients != nil {
		l.clients.Stop()
		l.clients = nil
	}
}
