// Package marked finds, counts and kills the ordinary processes of a sandbox, which have its ID in their
// environment or descend from one that has.
//
//	cmd.Env = []string{marked.Variable + "=" + string(id)}
//	...
//	proof, err := marked.KillAll(ctx, id)
//
// A process that removes the variable and leaves its parent is not found. So the package is for
// programs of Hortus, and for trusted code.
package marked
