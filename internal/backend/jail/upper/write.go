package upper

import (
	"bufio"
	"context"
	"io"
)

// Tree is a directory to save.
type Tree struct {
	// Name is the name for Reader, 1 to 255 bytes.
	Name string
	// Dir is a readable descriptor, which the caller closes.
	Dir int
	// Below are the layers of the upper layer that are saved with it, as one tree, the top one first.
	// Their owners are ids inside.
	Below []int
	// Under are the layers under these, the top one first. With Below they must be given: what hides
	// nothing in them is not saved. Nothing else of them is.
	Under []int
}

// Options configure Write.
type Options struct {
	// ID translates an id of the host to the id inside; false refuses the entry.
	ID func(host uint32) (inside uint32, ok bool)
	// Entries and Bytes are the maximum of all trees together: number of entries, and bytes
	// of content without holes.
	Entries, Bytes int64
	// Compare is the maximum size of all files, holes included, that are compared with what they were.
	Compare int64
	// Lift is true if the caller owns every file but cannot override modes: an unreadable file
	// is made readable while it is read.
	Lift bool
}

// Write saves trees, in their order, while nothing changes them.
//
// It returns a *RefusedError if a tree cannot be saved, the error of ctx, or that of w.
func Write(ctx context.Context, w io.Writer, trees []Tree, o Options) error {
	p := &packer{ctx: ctx, w: bufio.NewWriterSize(w, 256<<10), bytes: o.Bytes, buf: make([]byte, 256<<10)}
	p.w.WriteString(magic)
	for _, t := range trees {
		if err := walk(ctx, t, &o, p); err != nil {
			return err
		}
	}
	p.w.WriteByte(recEnd)
	return p.w.Flush()
}

// WriteNothing saves trees without what is in them: only what they are themselves.
func WriteNothing(w io.Writer, trees []Tree, o Options) error {
	b := bufio.NewWriter(w)
	p := &packer{w: b}
	b.WriteString(magic)
	for _, t := range trees {
		if err := (&walker{o: &o, out: p}).top(t); err != nil {
			return err
		}
		p.up()
	}
	b.WriteByte(recEnd)
	return b.Flush()
}
