package execserver

import "time"

const (
	// maxFile bounds a file that is read or written in one message, in bytes, unless
	// Config.MaxFile does.
	maxFile = 16 << 20
	// maxOther is how much longer a message may be than the largest file in base64.
	maxOther = 2 << 20
	// maxBodies bounds the files that are read or written at once in one message.
	maxBodies = 2
	// maxBlock bounds a block of a file that was opened, in bytes.
	maxBlock = 1 << 20
	// maxHandles bounds the files that are open at once.
	maxHandles = 32
	// maxRequests bounds the requests that are served at once; the next one is read when
	// one has been answered.
	maxRequests = 16
	// maxReads bounds the requests that wait for output.
	maxReads = 128
	// maxProcesses bounds the processes that run at once, and maxEnded those that have
	// ended and are kept to be read.
	maxProcesses = 64
	maxEnded     = 16
	// maxRetained bounds the output of a process that is kept to be read, in bytes. The
	// oldest is dropped; every byte was sent before that.
	maxRetained = 256 << 10
	// maxChunk bounds one piece of output, in bytes.
	maxChunk = 64 << 10
	// maxInput bounds what waits to be read by a process, in bytes.
	maxInput = 256 << 10
	// maxName bounds identifiers that the peer chooses, in bytes.
	maxName = 256
	// maxPath bounds a path, in bytes.
	maxPath = 4096
	// maxEnvironment bounds what the sandbox says about itself, in bytes.
	maxEnvironment = 1 << 20
	// maxWalked and maxEntries bound a walk: directories, and entries of them.
	maxWalked  = 2000
	maxEntries = 20000
	// maxConnections bounds the sessions of one handler.
	maxConnections = 4

	// maxWait bounds how long a read waits for output.
	maxWait = time.Minute
	// requestTimeout bounds every other request.
	requestTimeout = 2 * time.Minute
	// writeTimeout bounds how long the peer may take to read one message.
	writeTimeout = time.Minute
	// killTimeout bounds the end of the processes of a session.
	killTimeout = 20 * time.Second
)
