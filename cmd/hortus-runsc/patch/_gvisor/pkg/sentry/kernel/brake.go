package kernel

// brake delays a task that is about to use more memory while too much is in use. A signal ends
// the delay. The first process is not delayed: it enforces the limit.
func (t *Task) brake() {
	if d := t.k.mf.BrakeDelay(); d > 0 && t.tg != t.k.globalInit {
		_, _ = t.BlockWithTimeout(nil, true, d)
	}
}
