package plan

import (
	"time"

	"hortus.dev/api"
)

// Bounds of rounds.
const (
	// DefaultFollowRounds is how often comments and failed checks become an item, if the caller does not say, and MaxFollowRounds the most.
	DefaultFollowRounds = 5
	MaxFollowRounds     = 20
)

// Deliver requests the delivery of a plan that is done.
type Deliver struct {
	api.DeliverTask
	// Follow looks at the merge requests regularly afterwards, as in Create.
	Follow       bool `json:"follow,omitempty"`
	FollowRounds int  `json:"followRounds,omitempty"`
}

// Check refuses a request that makes no sense: KindInvalid.
func (d Deliver) Check() error {
	return checkFollow(d.MergeRequest, d.Stacked, d.Follow, d.FollowRounds)
}

// Follow says how the merge requests of a plan are followed.
type Follow struct {
	// Rounds is how many rounds there are at most, and Round how many have begun. Each is an item of the plan.
	Rounds int `json:"rounds"`
	Round  int `json:"round"`
	// Comments and Checks count the comments and the failed checks that became items.
	Comments int `json:"comments,omitempty"`
	Checks   int `json:"checks,omitempty"`
	// Ignored counts the comments that are of nobody who may write to the repository.
	Ignored int `json:"ignored,omitempty"`
	// Error is why the forge could not be read, or the result not be delivered. It is tried again at RetryAt.
	Error   *api.Error `json:"error,omitempty"`
	RetryAt time.Time  `json:"retryAt,omitzero"`
	// Ended is why the merge requests are not followed any more; empty while they are.
	Ended string `json:"ended,omitempty"`
}

// checkFollow refuses options of a delivery that would do nothing.
func checkFollow(mergeRequest, stacked, follow bool, rounds int) error {
	for _, f := range []struct {
		given bool
		name  string
		needs bool
		lacks string
	}{
		{stacked, "stacked", mergeRequest, "mergeRequest"}, {follow, "follow", mergeRequest, "mergeRequest"}, {rounds != 0, "followRounds", follow, "follow"},
	} {
		if f.given && !f.needs {
			return api.Errorf(api.KindInvalid, "%s has no effect without %s", f.name, f.lacks)
		}
	}
	if rounds < 0 || rounds > MaxFollowRounds {
		return api.Errorf(api.KindInvalid, "followRounds is %d; it must be between 1 and %d", rounds, MaxFollowRounds)
	}
	return nil
}
