package kernel

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// Modules are the drivers that a sandbox needs: virtual devices, the file system of layers, overlays, and the rules that
// capture outgoing connections. One that the kernel has built in is not a file.
var Modules = []string{"virtio_pci", "virtio_console", "virtio_blk", "virtio_rng", "crc32c_generic", "crc32c_intel", "erofs", "overlay", "ext4",
	"nf_tables", "nft_chain_nat", "nft_redir", "nft_ct", "nft_limit"}

// moduleName returns the name of a module in a file, as others depend on it.
func moduleName(file string) (string, bool) {
	name, ok := strings.CutSuffix(file[strings.LastIndexByte(file, '/')+1:], ".ko")
	return strings.ReplaceAll(name, "-", "_"), ok
}

// dependencies returns the names of the modules that one needs.
func dependencies(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("it is not a kernel module")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}

// order returns the names of the modules that are needed, each after those that it depends on. A module that is missing
// is built in, or was not packed.
func order(have map[string][]byte, wanted []string) ([]string, error) {
	var out []string
	var add func(name string, depth int) error
	add = func(name string, depth int) error {
		b, ok := have[name]
		if !ok || slices.Contains(out, name) {
			return nil
		}
		if depth > 32 {
			return fmt.Errorf("the module %s depends on itself", name)
		}
		needs, err := dependencies(b)
		if err != nil {
			return fmt.Errorf("the module %s: %w", name, err)
		}
		for _, n := range needs {
			if err := add(n, depth+1); err != nil {
				return err
			}
		}
		out = append(out, name)
		return nil
	}
	for _, name := range wanted {
		if err := add(name, 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}
