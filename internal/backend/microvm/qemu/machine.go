package qemu

import (
	"fmt"
	"os"
	"strconv"
)

// Accelerators.
const (
	KVM       = "kvm" // the processor's virtualization
	Emulation = "tcg" // a translator, several times slower
)

// Machine describes a virtual machine. Its files are open in this process.
type Machine struct {
	// Program is the path of qemu-system-x86_64.
	Program     string
	Accelerator string
	// Kernel and Initramfs must be readable for everybody, because QEMU opens them again. Command is the kernel's.
	Kernel, Initramfs *os.File
	Command           string
	CPUs              int
	// Memory is the file of its memory, which the machine's user may write. With Private, the file is not changed. With
	// Incoming, the machine waits for Client.Restore.
	Memory      *os.File
	MemoryBytes int64
	Private     bool
	Incoming    bool
	Disks       []Disk
	// Link is a listening socket whose connection is the serial port with the name PortName. Control is one for QMP.
	Link, Control *os.File
	PortName      string
	// User is the user and group of the process, if it is not 0, and Groups are further groups. Namespaces says to make its own namespaces, which
	// needs privileges.
	User       int
	Groups     []int
	Namespaces bool
	// Stderr gets what QEMU prints.
	Stderr *os.File
}

// Disk is a virtio disk. The file is open for reading only, or for both.
type Disk struct {
	File     *os.File
	Serial   string
	ReadOnly bool
}

// firstDisk is the first PCI slot of disks, of which each has eight.
const firstDisk, maxDisks = 8, (32 - firstDisk) * 8

// args returns the arguments and the files that are inherited, from descriptor 3 on.
func (m *Machine) args() (args []string, files []*os.File, err error) {
	if len(m.Disks) > maxDisks {
		return nil, nil, fmt.Errorf("a machine has %d disks at most", maxDisks)
	}
	inherit := func(f *os.File) int {
		files = append(files, f)
		return len(files) + 2
	}
	path := func(f *os.File) string { return "/dev/fd/" + strconv.Itoa(inherit(f)) }
	add := func(flag, format string, a ...any) { args = append(args, "-"+flag, fmt.Sprintf(format, a...)) }
	args = []string{"-nodefaults", "-no-user-config", "-no-reboot"}
	add("display", "none")
	add("sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	add("machine", "q35,accel=%s,memory-backend=memory,usb=off,smbus=off,sata=off,vmport=off,i8042=off,hpet=off,dump-guest-core=off", m.Accelerator)
	cpu := "max"
	if m.Accelerator == KVM {
		cpu = "host"
	}
	add("cpu", "%s", cpu)
	add("smp", "%d", m.CPUs)
	add("m", "%dK", m.MemoryBytes>>10)
	share := "on"
	if m.Private {
		share = "off"
	}
	add("object", "memory-backend-file,id=memory,size=%d,mem-path=%s,share=%s,dump=off,discard-data=off", m.MemoryBytes, path(m.Memory), share)
	add("kernel", "%s", path(m.Kernel))
	add("initrd", "%s", path(m.Initramfs))
	add("append", "%s", m.Command)
	add("object", "rng-builtin,id=random")
	add("device", "virtio-rng-pci,rng=random,addr=2.0")
	// What the kernel prints, bounded; see Client.Console.
	add("chardev", "ringbuf,id=console,size=%d", consoleSize)
	add("serial", "chardev:console")
	add("chardev", "socket,id=link,fd=%d,server=on,wait=off", inherit(m.Link))
	add("device", "virtio-serial-pci,max_ports=2,addr=3.0")
	add("device", "virtserialport,chardev=link,nr=1,name=%s", m.PortName)
	add("chardev", "socket,id=control,fd=%d,server=on,wait=off", inherit(m.Control))
	add("mon", "chardev=control,mode=control")
	for i, d := range m.Disks {
		write := "off"
		if d.ReadOnly {
			write = "on"
		}
		add("add-fd", "fd=%d,set=%d", inherit(d.File), i+1)
		add("blockdev", "raw,node-name=disk%d,read-only=%s,discard=unmap,file.driver=file,file.filename=/dev/fdset/%d,file.locking=off", i, write, i+1)
		// A program that writes to a full disk of the host gets an error; by default QEMU would stop the machine.
		add("device", "virtio-blk-pci,drive=disk%d,serial=%s,addr=%x.%d,multifunction=on,werror=report,rerror=report", i, d.Serial, firstDisk+i/8, i%8)
	}
	if m.Incoming {
		add("incoming", "defer")
	}
	return args, files, nil
}
