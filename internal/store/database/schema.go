package database

import (
	"embed"
	"io/fs"
	"slices"
)

//go:embed schema
var schemaFiles embed.FS

// schemaSteps are the statements that lead to each version of the schema of a database from the one before it. The first
// creates it.
func schemaSteps(database string) (steps []string) {
	names, err := fs.Glob(schemaFiles, "schema/"+database+"/*.sql")
	slices.Sort(names)
	for _, name := range names {
		var step []byte
		if err == nil {
			step, err = schemaFiles.ReadFile(name)
		}
		steps = append(steps, string(step))
	}
	if err != nil {
		panic(err) // the files are in this program
	}
	return steps
}
