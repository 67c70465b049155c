package systrap

import (
	"errors"
	"sync/atomic"
)

const (
	// noResult is what no system call returns: it is no address, no number of bytes and no error.
	noResult = 1<<63 - 1
	// maxLost is how often in a row a request may be lost. The stub can be made to claim it.
	maxLost = 1000
)

// notified has the syscall thread execute the system call of the sentry's message.
//
// If a signal interrupts the stub just when it is answered, such as that of a freezer, the answer is
// accepted and lost: the kernel has the stub notify again, which looks as if it had executed the system
// call. Then it has written no result, and is asked again.
func (t *syscallThread) notified(msg *syscallStubMessage) error {
	for range maxLost {
		atomic.StoreUint64(&msg.ret, noResult)
		if err := t.notifySeccompThread(); err != nil {
			return err
		}
		if err := t.waitForSeccompNotify(); err != nil {
			return err
		}
		if atomic.LoadUint64(&msg.ret) != noResult {
			return nil
		}
	}
	t.thread.kill()
	return errors.New("the syscall thread executes nothing")
}
