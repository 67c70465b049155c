package fleet

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// skewVariable is the environment variable with the time that the clock of a node is ahead; negative if it is behind.
const skewVariable = "HORTUS_TEST_CLOCK_AHEAD"

// skew has the wall clock of this process be ahead by d, for all that it does: the kernel maps code into each process that reads its clocks, and skew replaces it in this one.
// Times that the kernel sets itself, as those of files, and other processes have the clock of the machine. The monotonic clock stays as it is.
func skew(d time.Duration) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("a clock cannot be replaced on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	image, err := vdso()
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	if i < 0 {
		return fmt.Errorf("the kernel maps no clock_gettime")
	}
	entry := int(symbols[i].Value)
	code := []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: the clock is CLOCK_REALTIME
		0x75, 0x0d, // jnz to the end
		0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // movabs rcx, seconds
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	}
	binary.LittleEndian.PutUint64(code[13:], uint64(int64(d/time.Second)))
	at := len(image) - 32 // behind the end of the image the page is empty
	if len(bytes.Trim(image[at:], "\x00")) > 0 {
		return fmt.Errorf("the kernel's mapping has no space for code")
	}
	if err := unix.Mprotect(image, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC); err != nil {
		return err
	}
	copy(image[at:], code)
	// The first instruction becomes a jump, in one write: another thread may read its clock now.
	var first [8]byte
	copy(first[:], image[entry:])
	first[0] = 0xe9
	binary.LittleEndian.PutUint32(first[1:], uint32(at-entry-5))
	*(*uint64)(unsafe.Pointer(&image[entry])) = binary.LittleEndian.Uint64(first[:])
	return nil
}

// vdso is the memory with the code that the kernel maps.
func vdso() ([]byte, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				return nil, err
			}
			p := *(*unsafe.Pointer)(unsafe.Pointer(&from)) // go vet does not know memory that Go did not allocate
			return unsafe.Slice((*byte)(p), to-from), nil
		}
	}
	return nil, fmt.Errorf("the kernel maps no code")
}
