package node

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"fitout/hostops"
)

// route is one line of the kernel's main routing tables.
type route struct {
	to     netip.Prefix
	dev    string
	metric uint64
}

// routes reads /proc/net/route and /proc/net/ipv6_route. Policy routing is not
// seen there; the default routes are lifelines besides.
func routes(n *hostops.Node) []route {
	var out []route
	text, _ := n.ReadString("/proc/net/route")
	for line := range strings.SplitSeq(text, "\n") {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask …; host byte
		// order, which is little-endian on both architectures.
		f := strings.Fields(line)
		if len(f) < 8 || f[0] == "Iface" {
			continue
		}
		dst, err1 := hex.DecodeString(f[1])
		mask, err2 := hex.DecodeString(f[7])
		flags, err3 := strconv.ParseUint(f[3], 16, 32)
		if err1 != nil || err2 != nil || err3 != nil || len(dst) != 4 || len(mask) != 4 || flags&1 == 0 {
			continue // RTF_UP
		}
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], binary.LittleEndian.Uint32(dst))
		ones, _ := net.IPMask{mask[3], mask[2], mask[1], mask[0]}.Size()
		metric, _ := strconv.ParseUint(f[6], 10, 64)
		out = append(out, route{netip.PrefixFrom(netip.AddrFrom4(ip), ones), f[0], metric})
	}
	text, _ = n.ReadString("/proc/net/ipv6_route")
	for line := range strings.SplitSeq(text, "\n") {
		// destination, its length, source, its length, next hop, metric, refs,
		// uses, flags, device; all hex.
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		dst, err1 := hex.DecodeString(f[0])
		bits, err2 := strconv.ParseUint(f[1], 16, 8)
		flags, err3 := strconv.ParseUint(f[8], 16, 32)
		if err1 != nil || err2 != nil || err3 != nil || len(dst) != 16 || flags&0x200 != 0 || f[9] == "lo" {
			continue // RTF_REJECT
		}
		ip, _ := netip.AddrFromSlice(dst)
		metric, _ := strconv.ParseUint(f[5], 16, 64)
		out = append(out, route{netip.PrefixFrom(ip, int(bits)), f[9], metric})
	}
	return out
}

// bestRoute is the longest prefix, then the lowest metric.
func bestRoute(all []route, ip netip.Addr) (route, bool) {
	ip = ip.Unmap()
	var best route
	found := false
	for _, r := range all {
		if !r.to.Contains(ip) {
			continue
		}
		if !found || r.to.Bits() > best.to.Bits() || r.to.Bits() == best.to.Bits() && r.metric < best.metric {
			best, found = r, true
		}
	}
	return best, found
}

// Peer is a machine that the operator's session, or the run, talks to.
type Peer struct {
	// Kind is the kind of its lifeline: "session-network" or "registry".
	Kind string
	IP   netip.Addr
}

// Session is the machine at the other end of this process's SSH session, if it
// is in one. sudo takes SSH_CONNECTION out of the environment, so the parent
// processes are asked too, as far up as sshd.
func Session(n *hostops.Node) []Peer {
	pid := os.Getpid()
	for range 32 {
		if pid <= 1 {
			return nil
		}
		env, err := n.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err == nil {
			for kv := range strings.SplitSeq(string(env), "\x00") {
				if v, ok := strings.CutPrefix(kv, "SSH_CONNECTION="); ok {
					return SessionOf(v)
				}
			}
		}
		pid = n.Parent(pid)
	}
	return nil
}

// SessionOf reads SSH_CONNECTION ("client port server port").
func SessionOf(connection string) []Peer {
	f := strings.Fields(connection)
	if len(f) == 0 {
		return nil
	}
	ip, err := netip.ParseAddr(f[0])
	if err != nil || ip.IsLoopback() {
		return nil
	}
	return []Peer{{"session-network", ip}}
}
