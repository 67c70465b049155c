package guest

import "time"

// keptFor is how long a command waits, once its host is there again, for clients of
// the host that died.
const keptFor = heldFor

// keep keeps output for the clients of a host whose stream broke behind the byte at
// offset: it may have died. The command waits when there is no more room, for as long
// as no host is there. Of the bytes before offset half of what is kept is theirs: more
// than two connections hold, from here to the host and from there to a client.
func (p *process) keep(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grace != nil {
		p.grace.Stop()
		p.grace = nil
	}
	for s := range p.subs {
		if s.kept {
			return // since an earlier host died, for whom nobody has come yet
		}
	}
	if p.subs == nil {
		p.subs = make(map[*subscriber]struct{})
	}
	k := &subscriber{at: max(p.ring.start, offset-int64(p.ring.limit/2)), wake: make(chan struct{}, 1), held: true, kept: true}
	p.subs[k] = struct{}{}
}

// keepForAWhile lets go of what is kept when no client has come for it in time: its
// host is there. The caller holds the lock.
func (p *process) keepForAWhile() {
	for s := range p.subs {
		if s.kept && p.grace == nil {
			p.grace = time.AfterFunc(keptFor, p.unkeep)
		}
	}
}

// keptBy lets go of what is kept when a client reads on from before it, for which the
// command waits too. The caller holds the lock.
func (p *process) keptBy(client *subscriber) {
	for s := range p.subs {
		if s.kept && client.at <= s.at {
			delete(p.subs, s)
			p.space.Broadcast()
		}
	}
}

func (p *process) unkeep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grace = nil
	for s := range p.subs {
		if s.kept {
			delete(p.subs, s)
		}
	}
	p.space.Broadcast()
}
