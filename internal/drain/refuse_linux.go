package drain

import (
	"net"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	flagsOffset = 13 // of the flags in a TCP header
	flagSYN     = 0x02
)

// refuseConnections makes the kernel ignore new connection attempts (SYN) on a TCP listener. Handshakes in progress are
// completed and can be accepted. Without it, closing the listener resets every connection whose client has seen the
// handshake succeed and may have sent a request. Errors are ignored: the listener then refuses when it is closed.
func refuseConnections(l net.Listener) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: flagsOffset, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: flagSYN, SkipFalse: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 0xffff},
	})
	if err != nil {
		return
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}) //nolint:gosec // four instructions
	})
}
