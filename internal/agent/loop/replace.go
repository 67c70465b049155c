package loop

import "hortus.dev/api"

// MaxReplaced is how often the sandbox of the tools is replaced in all Runs.
const MaxReplaced = 3

// replacedNotice is what the model is told of a sandbox that was lost.
const replacedNotice = "The sandbox was lost and has been replaced. The files of /workspace are unchanged; files elsewhere were removed, and programs in the background have ended. " +
	"The call that failed may have been done in part: look at the files before you continue."

// reseat has the sandbox of the tools replaced after a call found it lost. It reports whether the work can continue, or
// has ended with a reason. The other calls of the same answer were meant for the old sandbox: they are refused.
func (r *run) reseat(lost error) bool {
	if r.swapped {
		return true
	}
	why := lost
	for r.cfg.Replace != nil && r.replaced < MaxReplaced {
		r.replaced++
		err := r.cfg.Replace(r.ctx, r.replaced, why)
		switch {
		case err == nil:
			r.swapped = true
			return true
		case r.gone():
			return true
		}
		why = err
	}
	if why != lost {
		r.stop(api.StopSandbox, why, "the sandbox was lost (%v) and could not be replaced: %v", lost, why)
		return true
	}
	return false
}

// settled tells the model of a replacement, when all calls of its answer have results.
func (r *run) settled() {
	if r.swapped {
		r.swapped = false
		r.notice(replacedNotice)
	}
}
