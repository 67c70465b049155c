// Package lessons has the words about what earlier tasks learned: a failure, and what fixed it.
//
//	known, err := client.Lessons.List(ctx, "")
//	for _, l := range known {
//		fmt.Println(l.ID, l.Failure, l.Helped, "of", l.Offered)
//	}
//
// The values are plain data. Their texts come from programs, repositories and models: they are untrusted.
package lessons
