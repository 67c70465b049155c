package guest

import "time"

// heldFor is how long a command waits, once the guest serves again, for a client
// whose stream the guest has ended.
const heldFor = 10 * time.Second

// hold keeps output for a client whose stream the guest has ended, behind the byte
// at offset: the command waits for it, when there is more than is kept, as it would
// for a slow reader. What of the bytes before offset was on its way is not known;
// half of what is kept is more than a connection holds.
func (p *process) hold(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs == nil {
		p.subs = make(map[*subscriber]struct{})
	}
	h := &subscriber{at: max(p.ring.start, offset-int64(p.ring.limit/2)), wake: make(chan struct{}, 1), held: true}
	p.subs[h] = struct{}{}
}

// comeBack lets go of what was held for a client that reads on from offset: of the
// latest place that is no later. A host that is there again comes for itself, not for
// its clients. The caller holds the lock.
func (p *process) comeBack(offset int64, record bool) {
	var found *subscriber
	for s := range p.subs {
		if s.held && !(record && s.kept) && s.at <= offset && (found == nil || s.at > found.at) {
			found = s
		}
	}
	if found != nil {
		delete(p.subs, found)
		p.space.Broadcast()
	}
}

// release lets go of all that is held: nobody comes back for it.
func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		if s.held {
			delete(p.subs, s)
		}
	}
	p.space.Broadcast()
}

// awaitBack has it released when nobody has come back for long. A quiet guest waits
// however long its state lies on a disk.
func (p *process) awaitBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		if s.held {
			p.patience = time.AfterFunc(heldFor, p.release)
			return
		}
	}
}

func (p *process) stopAwaiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.patience != nil {
		p.patience.Stop()
		p.patience = nil
	}
}
