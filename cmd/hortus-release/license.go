package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenseName matches the names of license files in the root of a module.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-_.][a-z0-9-]+)?(\.(txt|md|rst))?$`)

// licenses returns the licenses of everything that is linked into the binaries, as one
// text: of Go's standard library and of every module. A module without a license is an
// error. binaries maps each binary to the directory of the module that it was built in.
func licenses(ctx context.Context, binaries map[string]string) ([]byte, error) {
	texts := map[string]string{} // module and version -> directory
	for binary, dir := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("modules of %s: %w", binary, err)
		}
		where, err := sources(ctx, dir, info)
		if err != nil {
			return nil, err
		}
		maps.Copy(texts, where)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	texts["Go"] = strings.TrimSpace(string(root))
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		n, err := writeLicenses(&out, name, texts[name])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fmt.Errorf("%s has no license", name)
		}
	}
	return out.Bytes(), nil
}

// sources returns the directories of the modules that are linked into a binary.
func sources(ctx context.Context, dir string, info *buildinfo.BuildInfo) (map[string]string, error) {
	args := []string{"list", "-mod=readonly", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range info.Deps {
		args = append(args, m.Path)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m in %s: %w", dir, err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, at, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			out[name] = at
		}
	}
	for _, m := range info.Deps {
		if out[m.Path+" "+m.Version] == "" {
			return nil, fmt.Errorf("the source of the linked module %s %s is missing", m.Path, m.Version)
		}
	}
	return out, nil
}

// writeLicenses writes the license files of a directory to out and returns their number.
func writeLicenses(out *bytes.Buffer, name, dir string) (int, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range list {
		if !e.Type().IsRegular() || !licenseName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return n, err
		}
		fmt.Fprintf(out, "==== %s: %s\n\n%s\n\n", name, e.Name(), bytes.TrimSpace(text))
		n++
	}
	return n, nil
}
