package jail_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// changed is a record with other contents, which is whole.
func changed(t *testing.T, record []byte, change func(map[string]any)) []byte {
	t.Helper()
	line, body, _ := bytes.Cut(record, []byte("\n"))
	r := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	change(r)
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(line), "sha256:")
	if !ok {
		t.Fatalf("a record begins with %q", line)
	}
	sum := sha256.Sum256(body)
	return append([]byte(head+"sha256:"+hex.EncodeToString(sum[:])+"\n"), body...)
}

// startOf is when a process started, in ticks since the machine did.
func startOf(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	n, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
