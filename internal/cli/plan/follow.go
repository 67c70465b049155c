package plan

import (
	"fmt"
	"time"

	"hortus.dev/api"
	words "hortus.dev/api/plan"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// followFlags say how a plan is delivered, and what happens after that.
type followFlags struct {
	Stacked      bool `help:"Open a merge request for each completed item, each on that of the item before it. Needs --mr."`
	Follow       bool `help:"Look at the merge requests regularly: comments of people who may write to the repository, and failed checks, become an item of the plan, and its result is pushed. Needs --mr."`
	FollowRounds int  `placeholder:"N" help:"Maximum number of such items (1 to 20, default 5)."`
}

// check refuses flags that would do nothing.
func (f followFlags) check(mr bool) error {
	for _, g := range []struct {
		given bool
		name  string
		needs bool
		add   string
	}{{f.Stacked, "--stacked", mr, "--mr"}, {f.Follow, "--follow", mr, "--mr"}, {f.FollowRounds != 0, "--follow-rounds", f.Follow, "--follow"}} {
		if g.given && !g.needs {
			return api.Errorf(api.KindInvalid, "%s has no effect without %s", g.name, g.add).WithHint("add %s", g.add)
		}
	}
	return nil
}

// followed says how the merge requests of a plan are followed.
func followed(p words.Plan, now time.Time) string {
	f := p.Follow
	rounds := fmt.Sprintf("round %d of %d; handled: comments %d, failed checks %d", f.Round, f.Rounds, f.Comments, f.Checks)
	if f.Round == 0 {
		rounds = fmt.Sprintf("no round yet, %d at most", f.Rounds)
	}
	switch {
	case f.Ended != "":
		return "ended: " + f.Ended + " (" + rounds + ")"
	case f.Error != nil:
		return fmt.Sprintf("%s; %s; next look in %s", rounds, f.Error.Message, human.Duration(max(f.RetryAt.Sub(now), 0)))
	case p.Delivered == nil:
		return "once it is delivered (" + rounds + ")"
	}
	return "yes (" + rounds + ")"
}

type unfollowCmd struct{ one }

// Run ends the looks at merge requests.
func (c *unfollowCmd) Run(ctx app.Context, a *app.App, cl *client.Client) error {
	return c.change(ctx, a, cl, cl.Plans.Unfollow)
}
