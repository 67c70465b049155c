// Package sealed stores the files of workspaces in an archive, so that another node of a fleet can continue the work in them.
//
//	s := sealed.Open(sealed.Config{Store: workspaces, Layers: layers, Rows: db, Artefacts: artefacts, Owner: owner})
//	err := s.Seal(ctx, id, nil, sealed.State{Task: task, Step: "round 2"}, beside) // on one node
//	err = s.Bring(ctx, id, fits)                                                   // on another one
//
// # What is stored
//
// Seal copies what was written over the layers of a workspace, which nobody uses meanwhile, with files that the caller puts beside it, such as
// commits. The rest happens in the background: the layers are stored in the archive of layers, the copy as an artefact, and then the row of
// the workspace names the artefact, its layers, and the step of a journal that comes after this state. So what the row names can be opened;
// a state that is not stored yet does not exist for other nodes. A newer state takes the place of one that waits. Stored waits until
// nothing waits, or the archive fails.
//
// Bring is for a workspace whose row belongs to an owner of another node that has ended. It fetches everything, asks the caller whether the state
// fits to what it continues, makes the directory, and then the row its owner's. After an error the row is as it was. Who has the
// row has the files: what the former node has of them is old, and is removed when that node starts again.
//
// Objects that no row names are removed from the archive, an hour later, by any node.
//
// # Trust
//
// As of artefacts: who can write to the archive can remove, and nothing else. Layers have the trust that layers have.
//
// Open starts a goroutine for the removal, and Seal one for each workspace that is stored; Close ends them, and waits half a minute for what is not
// stored yet.
// The package must not know sandboxes, tasks or git.
package sealed
