package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/keeper"
)

// maxBaseBytes bounds what a kernel may claim of memory that the host cannot measure.
const maxBaseBytes = 1 << 44

// HasBases reports whether the memory of a sandbox refers to bases, whose directory it is.
func HasBases(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, BaseFile("*")))
	if err != nil || len(files) > 0 {
		return true
	}
	holders, err := Holders(dir)
	return err != nil || len(holders) > 0
}

// Use returns what the sandbox refers to of each of its bases. c is the call that asks its kernel,
// whose answer is not trusted: it can name only bases that the sandbox has, and no more than the
// size of a file.
func (m Memory) Use(ctx context.Context, c keeper.Call) ([]api.SharedMemory, error) {
	b, err := m.Call(ctx, c)
	if err != nil {
		return nil, err
	}
	out, err := m.decodeUse(b)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: the use of its memory: %w", m.ID, err)
	}
	return out, nil
}

func (m Memory) decodeUse(b []byte) ([]api.SharedMemory, error) {
	var use []struct {
		Name             string
		Bytes, Allocated uint64
	}
	if err := json.Unmarshal(b, &use); err != nil {
		return nil, err
	}
	holders, err := Holders(m.Bases)
	if err != nil {
		return nil, err
	}
	out, seen := []api.SharedMemory{}, map[string]bool{}
	for _, u := range use {
		if !validBase.MatchString(u.Name) || seen[u.Name] {
			return nil, errors.New("a base has an invalid name")
		}
		seen[u.Name] = true
		s := api.SharedMemory{Name: u.Name}
		if holder, ok := holders[u.Name]; ok {
			s.Holder, s.TotalBytes = holder, int64(min(u.Allocated, maxBaseBytes))
		} else {
			st, err := os.Lstat(filepath.Join(m.Bases, BaseFile(u.Name)))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, errors.New("it names a base that the sandbox does not have")
			}
			if err != nil {
				return nil, err
			}
			s.File, s.TotalBytes = true, st.Size()
		}
		if s.Bytes = int64(min(u.Bytes, uint64(s.TotalBytes))); s.Bytes > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}
