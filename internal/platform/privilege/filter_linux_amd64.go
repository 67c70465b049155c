package privilege

import "golang.org/x/sys/unix"

// deniedHere are the calls that this architecture alone has.
var deniedHere = []uintptr{unix.SYS_IOPL, unix.SYS_IOPERM}
