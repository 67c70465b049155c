package modules

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Files is the number of files of the real tree.
const Files = 44_227

const (
	perPackage = 48 // files of a package, on average
	perDir     = 11 // files of a directory, on average
	// The sizes of files have a log-normal distribution with this median, in bytes, and
	// deviation; the largest has maxSize.
	medianSize = 1500
	deviation  = 2.13
	maxSize    = 12 << 20
)

// Info is what was written. Bytes is the size of the files.
type Info struct {
	Files, Dirs, Links int
	Bytes              int64
}

// Write writes a tree of so many files into a directory.
func Write(ctx context.Context, dir string, files int) (Info, error) {
	g := &generator{r: rand.New(rand.NewPCG(18, uint64(files)))}
	for i := range g.words {
		word := make([]byte, 2+g.r.IntN(10))
		for j := range word {
			word[j] = "etaoinshrdlucmfwypvbgkqjxz_$ABCDEFT0123"[min(int(g.r.ExpFloat64()*7), 38)]
		}
		g.words[i] = word
	}
	err := g.write(ctx, dir, files)
	return g.info, err
}

type generator struct {
	r     *rand.Rand
	words [4096][]byte
	text  bytes.Buffer
	info  Info
}

// stamp is the time of every file, as npm sets it.
var stamp = time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC)

func (g *generator) write(ctx context.Context, dir string, files int) error {
	bin := filepath.Join(dir, ".bin")
	if err := g.mkdir(bin); err != nil {
		return err
	}
	for n := 0; g.info.Files < files; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := fmt.Sprintf("package-%d", n)
		if n%4 == 0 {
			name = fmt.Sprintf("@scope-%d/%s", n/40, name)
		}
		count := min(1+int(g.r.ExpFloat64()*perPackage), files-g.info.Files)
		if err := g.pack(filepath.Join(dir, name), count); err != nil {
			return err
		}
		if n%9 == 0 {
			if err := os.Symlink("../"+name+"/package.json", filepath.Join(bin, fmt.Sprintf("tool-%d", n))); err != nil {
				return err
			}
			g.info.Links++
		}
	}
	return nil
}

// pack writes a package of so many files.
func (g *generator) pack(dir string, count int) error {
	sub := dir
	for i := range count {
		if i == 0 || g.r.IntN(perDir) == 0 {
			switch {
			case i == 0:
			case g.r.IntN(2) == 0:
				sub = filepath.Join(dir, fmt.Sprintf("lib%d", i))
			default:
				sub = filepath.Join(sub, fmt.Sprintf("esm%d", i))
			}
			if err := g.mkdir(sub); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("module-%d.js", i)
		if i == 0 {
			name = "package.json"
		}
		size := int(min(medianSize*math.Exp(g.r.NormFloat64()*deviation), maxSize))
		if err := g.file(filepath.Join(sub, name), size); err != nil {
			return err
		}
	}
	return nil
}

func (g *generator) mkdir(dir string) error {
	g.info.Dirs++
	return os.MkdirAll(dir, 0o755)
}

// file writes text of words, some of which repeat a line before.
func (g *generator) file(path string, size int) error {
	g.text.Reset()
	for g.text.Len() < size {
		if b := g.text.Bytes(); len(b) > 200 && g.r.IntN(12) == 0 {
			at := g.r.IntN(len(b) - 80)
			g.text.Write(bytes.Clone(b[at : at+40+g.r.IntN(40)]))
			continue
		}
		g.text.Write(g.words[min(int(g.r.ExpFloat64()*200), len(g.words)-1)])
		g.text.WriteByte(" \n.,();"[min(int(g.r.ExpFloat64()*1.5), 6)])
	}
	b := g.text.Bytes()[:size]
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return err
	}
	g.info.Files++
	g.info.Bytes += int64(size)
	return os.Chtimes(path, stamp, stamp)
}
