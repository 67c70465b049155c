// Package dockerfile reads Dockerfiles as steps of a build.
//
//	f, err := dockerfile.Parse(text, dockerfile.Options{Args: map[string]string{"VERSION": "3"}, Files: name})
//	req.Stages = f.Stages
//
// FROM, ARG, ENV, RUN, COPY, ADD, WORKDIR, USER, SHELL, CMD and ENTRYPOINT are supported, with stages and here-documents.
// EXPOSE, LABEL and others that change nothing in a sandbox are returned as notes. Everything else is an error that
// names the instruction and its line. The text is not trusted: its size and the number of its steps are limited, and it
// can name no secret of the account but those of [Options].
//
// The package must not know sandboxes. It holds nothing.
package dockerfile
