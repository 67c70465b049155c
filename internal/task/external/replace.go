package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
	"hortus.dev/internal/agent/loop"
)

// replacedNotice comes before the message of a turn that begins again in another sandbox.
const replacedNotice = "Your sandbox was lost while you worked on the message below, and has been replaced. The files of /workspace are unchanged; files elsewhere " +
	"were removed, and programs in the background have ended. What you were doing may have been done in part: look at the files before you continue.\n\n"

// lost is the error of an agent whose sandbox ended.
type lost struct{ error }

// Unwrap returns what is known of it.
func (l lost) Unwrap() error { return l.error }

// expired begins the reason of a sandbox whose time to live was over.
const expired = "expired"

// beneath reports whether the end of a command says that its sandbox ended, and not at a limit that another one would have, too.
func beneath(x api.Exec) bool {
	if x.State != api.ExecUnknown || strings.HasPrefix(x.Exit.Cause, expired) {
		return false
	}
	switch x.Exit.Cause {
	case api.CauseTimeout, api.CauseCPUTime, api.CauseOutput, api.CauseDisk, api.CauseQuota, api.CauseFull:
		return false
	}
	return true
}

// unreached returns the error of a sandbox that could not be asked.
func unreached(err error) error {
	switch api.KindOf(err) {
	case api.KindUnavailable, api.KindInternal:
		return lost{err}
	}
	return err
}

// turns says the message to the agent. If its sandbox is lost, the turn begins again in another one over the same workspace,
// which has what the agent stored of the conversation.
func (r *round) turns(ctx context.Context, message string) (acp.Turn, error) {
	turn, err := r.turn(ctx, message)
	for gone := (lost{}); errors.As(err, &gone) && ctx.Err() == nil; {
		r.interrupted()
		if why := r.reseat(ctx, gone.error); why != nil {
			return turn, lost{why}
		}
		again := replacedNotice + message
		r.notes.Write(loop.Entry{Kind: loop.KindUser, Round: r.worker.round, Step: r.steps, Text: again})
		r.again, r.job = true, nil
		turn, err = r.turn(ctx, again)
	}
	return turn, err
}

// reseat has the sandbox replaced, and returns why that is not possible.
func (r *round) reseat(ctx context.Context, gone error) error {
	why := gone
	for r.desk.Replace != nil && r.replaced < loop.MaxReplaced {
		r.replaced++
		err := r.desk.Replace(ctx, r.replaced, why)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		why = err
	}
	if why == gone {
		return gone
	}
	return api.Errorf(api.KindOf(why), "the sandbox was lost (%w) and could not be replaced: %w", gone, why)
}

// interrupted reports what was said, and the calls that did not end.
func (r *round) interrupted() {
	r.flush()
	for _, id := range r.order {
		r.rep.Skipped = last(append(r.rep.Skipped, r.calls[id].short()))
	}
	r.calls, r.order = map[string]*call{}, nil
}

// died describes the end of an agent that did not end its turn.
func (r *round) died(client *acp.Client, x api.Exec, said string) error {
	how := cmp.Or(x.Exit.Cause, fmt.Sprintf("exit code %d", x.Exit.Code))
	if beneath(x) {
		return r.fell(x)
	}
	if said = loop.ShortLine(lastLines(said)); said != "" {
		said = ": " + said
	}
	return api.Errorf(api.KindUnavailable, "the agent %s stopped (%s; %w)%s", r.runtime.Label(), how, client.Err(), said)
}

// fell is the error of an agent that ended with its sandbox.
func (r *round) fell(x api.Exec) error {
	how := cmp.Or(x.Exit.Cause, fmt.Sprintf("exit code %d", x.Exit.Code))
	return lost{api.Errorf(api.KindUnavailable, "the sandbox of the agent %s ended: %s", r.runtime.Label(), how)}
}
