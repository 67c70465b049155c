package durable

import (
	"bytes"
	"context"
	"io"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
)

const (
	// maxText is the maximum size of a file that is compared line by line, in bytes.
	maxText = 256 << 10
	// maxTexts is the maximum size of all texts of one answer, in bytes.
	maxTexts = 8 << 20
	// maxChanges is the maximum number of changes in one answer.
	maxChanges = 20_000
)

// Diff returns what a workspace that nobody uses changes over its layers. With text it has
// unified diffs of short texts.
func (s *Service) Diff(ctx context.Context, id api.WorkspaceID, text bool) (api.WorkspaceDiff, error) {
	w, done, err := s.lastVersion(ctx, id)
	if err != nil {
		return api.WorkspaceDiff{}, err
	}
	defer done()
	c, err := s.cfg.Store.Changes(ctx, id, workspace.Limits{Files: maxChanges, FileBytes: 4 << 30, Bytes: 64 << 30})
	if err != nil {
		return api.WorkspaceDiff{}, s.InUse(ctx, w, err)
	}
	defer c.Close()
	out := api.WorkspaceDiff{Workspace: id, Changes: []api.WorkspaceChange{}, Refused: c.Refused, Complete: c.Complete}
	left := maxTexts
	for _, ch := range c.List {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		one := api.WorkspaceChange{Path: ch.Path, Mode: string(ch.Mode), Size: ch.Size}
		if ch.Old != nil {
			one.OldSize = ch.Old.Size
		}
		switch {
		case ch.Delete:
			one.Kind = api.ChangeRemoved
			out.Removed++
		case ch.Old == nil:
			one.Kind = api.ChangeAdded
			out.Added++
			out.Bytes += ch.Size
		default:
			one.Kind = api.ChangeModified
			out.Modified++
			out.Bytes += ch.Size
		}
		if text {
			one.Text, one.NoText = texts(ch)
			if left -= len(one.Text); left < 0 {
				one.Text, one.NoText = "", "the other texts of this answer have 8 MiB already"
			}
		}
		out.Changes = append(out.Changes, one)
	}
	return out, nil
}

// texts compares both sides of a change line by line, or says why not.
func texts(ch workspace.Change) (text, why string) {
	var before, after []byte
	if ch.Old != nil {
		if before, why = short(ch.Old.Size, ch.Old.Open); why != "" {
			return "", why
		}
	}
	if !ch.Delete {
		if after, why = short(ch.Size, ch.Open); why != "" {
			return "", why
		}
	}
	if bytes.Equal(before, after) {
		if ch.Old != nil {
			return "", "the content is the same; the mode changed"
		}
		return "", ""
	}
	return unified(before, after)
}

// short reads a text of at most maxText bytes.
func short(size int64, open func() (io.ReadCloser, error)) (_ []byte, why string) {
	if size > maxText {
		return nil, "it has more than 256 KiB"
	}
	f, err := open()
	if err != nil {
		return nil, "it cannot be read: " + err.Error()
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return nil, "it cannot be read: " + err.Error()
	case bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b):
		return nil, "it is not text"
	}
	return b, ""
}
