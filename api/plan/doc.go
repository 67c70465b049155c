// Package plan has the words for plans: a request that is divided into items, each done by an agent of its own, whose results
// become one branch. It checks plans, for those who send them and for those who serve them.
//
//	items := []plan.Item{
//		{ID: "parser", Request: "Accept comments.", Touches: []string{"parser.go"}},
//		{ID: "docs", Request: "Describe comments.", Touches: []string{"README.md"}, Needs: []string{"parser"}},
//	}
//	if err := plan.Check(items); err != nil {
//		return err
//	}
//
// No value of its types outlives its caller. The work on an item is an [api.Task], with the events and the receipt of every task.
// The package must not know where plans are kept or run, or which files a repository has.
package plan
