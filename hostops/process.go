package hostops

import (
	"fmt"
	"strconv"
	"strings"
)

// Parent is a process's parent, 0 when it is gone (proc(5), stat: the name in
// brackets may hold anything, the fields after it do not).
func (n *Node) Parent(pid int) int {
	stat, err := n.ReadString(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // state, parent, …
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
