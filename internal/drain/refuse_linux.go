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
	control(l, func(fd int) {
		_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}) //nolint:gosec // four instructions
	})
}

// hasUnaccepted reports whether established connections wait to be accepted. Of a socket that listens, the kernel gives
// their number as tcpi_unacked (tcp_get_info in net/ipv4/tcp.c).
func hasUnaccepted(l net.Listener) (waiting bool) {
	control(l, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		waiting = err == nil && info.Unacked > 0
	})
	return waiting
}

// control calls fn with the file descriptor of a listener, if that has one.
func control(l net.Listener, fn func(fd int)) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { fn(int(fd)) })
	}
}
