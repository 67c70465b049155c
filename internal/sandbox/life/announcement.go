package life

import "sync/atomic"

// Announcement keeps the event that a sandbox is running before all later events of it. It is
// appended a moment after the create has returned, or as soon as a reader waits for it.
type Announcement struct {
	begun atomic.Bool
	done  chan struct{} // closed once it is appended
	hurry chan struct{} // holds one token if a reader waits
}

// NewAnnouncement makes one that has not begun.
func NewAnnouncement() *Announcement {
	return &Announcement{done: make(chan struct{}), hurry: make(chan struct{}, 1)}
}

// Begin says that the event is going to be appended. Done must be called then.
func (a *Announcement) Begin() { a.begun.Store(true) }

// Done says that the event is appended.
func (a *Announcement) Done() { close(a.done) }

// Hurry gives a token if a reader waits for the event.
func (a *Announcement) Hurry() <-chan struct{} { return a.hurry }

// Wait returns when the event is appended, if it is going to be.
func (a *Announcement) Wait() {
	if !a.begun.Load() {
		return
	}
	select {
	case a.hurry <- struct{}{}:
	default: // another reader requested it before
	}
	<-a.done
}
