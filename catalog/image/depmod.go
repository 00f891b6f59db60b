package image

import (
	"bytes"
	"encoding/binary"
	"sort"
	"strings"
)

// kmodIndex writes the binary tables that modprobe reads (modules.dep.bin and
// its kin): a tree over the bytes of the keys. Format: kmod, libkmod-index.c.
type kmodIndex struct{ root *indexNode }

type indexNode struct {
	prefix   string
	children map[byte]*indexNode
	values   []indexValue
}

type indexValue struct {
	priority uint32
	text     string
}

// Marks of the format. A node's offset carries in its upper bits what the node
// has.
const (
	indexMagic    = 0xB007F457
	indexVersion  = 0x00020001
	nodePrefix    = 0x80000000
	nodeValues    = 0x40000000
	nodeChildren  = 0x20000000
	indexRootSlot = 8 // where the root's offset stands
)

// insert adds a value; several values of one key are kept by priority.
func (x *kmodIndex) insert(key, value string, priority uint32) {
	if x.root == nil {
		x.root = &indexNode{}
	}
	n := x.root
	for {
		same := common(n.prefix, key)
		if same < len(n.prefix) {
			n.split(same)
		}
		key = key[same:]
		if key == "" {
			n.values = append(n.values, indexValue{priority, value})
			sort.SliceStable(n.values, func(i, j int) bool { return n.values[i].priority < n.values[j].priority })
			return
		}
		if n.children == nil {
			n.children = map[byte]*indexNode{}
		}
		next := n.children[key[0]]
		if next == nil {
			n.children[key[0]] = &indexNode{prefix: key[1:], values: []indexValue{{priority, value}}}
			return
		}
		n, key = next, key[1:]
	}
}

// split cuts a node's prefix after at bytes.
func (n *indexNode) split(at int) {
	rest := &indexNode{prefix: n.prefix[at+1:], children: n.children, values: n.values}
	n.children = map[byte]*indexNode{n.prefix[at]: rest}
	n.prefix, n.values = n.prefix[:at], nil
}

// bytes is the file.
func (x *kmodIndex) bytes() []byte {
	var b bytes.Buffer
	binary.Write(&b, binary.BigEndian, []uint32{indexMagic, indexVersion, 0})
	root := x.root
	if root == nil {
		root = &indexNode{}
	}
	offset := root.write(&b)
	out := b.Bytes()
	binary.BigEndian.PutUint32(out[indexRootSlot:], offset)
	return out
}

// write appends a node after its children and gives its offset with marks.
func (n *indexNode) write(b *bytes.Buffer) uint32 {
	first, last := byte(255), byte(0)
	for c := range n.children {
		first, last = min(first, c), max(last, c)
	}
	var children []uint32
	if len(n.children) > 0 {
		children = make([]uint32, int(last)-int(first)+1)
		for i := range children {
			if c := n.children[first+byte(i)]; c != nil {
				children[i] = c.write(b)
			}
		}
	}
	offset := uint32(b.Len())
	if n.prefix != "" {
		b.WriteString(n.prefix + "\x00")
		offset |= nodePrefix
	}
	if len(children) > 0 {
		b.Write([]byte{first, last})
		binary.Write(b, binary.BigEndian, children)
		offset |= nodeChildren
	}
	if len(n.values) > 0 {
		binary.Write(b, binary.BigEndian, uint32(len(n.values)))
		for _, v := range n.values {
			binary.Write(b, binary.BigEndian, v.priority)
			b.WriteString(v.text + "\x00")
		}
		offset |= nodeValues
	}
	return offset
}

// tables are depmod's files for a set of modules: the text forms for people and
// the binary ones for modprobe. Dependencies on the host's modules are not in
// them; the node joins both trees.
func (s *moduleFiles) tables() []packFile {
	var dep, alias, symbols, soft strings.Builder
	var depIndex, aliasIndex, symbolIndex kmodIndex
	alias.WriteString("# Aliases extracted from modules themselves.\n")
	symbols.WriteString("# Aliases for symbols, used by symbol_request().\n")
	soft.WriteString("# Soft dependencies extracted from modules themselves.\n")
	for i, m := range s.modules {
		line := m.file.name + ":"
		for _, d := range s.closure(m) {
			line += " " + d.file.name
		}
		dep.WriteString(line + "\n")
		depIndex.insert(m.info.Name, line, uint32(i))
		for _, a := range m.info.Aliases {
			alias.WriteString("alias " + a + " " + m.info.Name + "\n")
			aliasIndex.insert(strings.ReplaceAll(a, "-", "_"), m.info.Name, uint32(i))
		}
		for _, e := range m.info.Exports {
			symbols.WriteString("alias symbol:" + e.Name + " " + m.info.Name + "\n")
			symbolIndex.insert("symbol:"+e.Name, m.info.Name, uint32(i))
		}
		soft.WriteString(softdepLine("pre", m.info.Name, m.info.SoftPre) + softdepLine("post", m.info.Name, m.info.SoftPost))
	}
	return []packFile{
		{name: "modules.alias", data: []byte(alias.String())}, {name: "modules.alias.bin", data: aliasIndex.bytes()},
		{name: "modules.dep", data: []byte(dep.String())}, {name: "modules.dep.bin", data: depIndex.bytes()},
		{name: "modules.softdep", data: []byte(soft.String())},
		{name: "modules.symbols", data: []byte(symbols.String())}, {name: "modules.symbols.bin", data: symbolIndex.bytes()},
	}
}

func softdepLine(kind, name string, deps []string) string {
	if len(deps) == 0 {
		return ""
	}
	return "softdep " + name + " " + kind + ": " + strings.Join(deps, " ") + "\n"
}

// closure lists what a module needs inside the set: what needs others before
// the others, the order that modprobe expects.
func (s *moduleFiles) closure(m *moduleFile) []*moduleFile {
	var order []*moduleFile
	seen := map[*moduleFile]bool{m: true}
	var visit func(*moduleFile)
	visit = func(m *moduleFile) {
		for _, name := range m.info.Depends {
			if d := s.byName[name]; d != nil && !seen[d] {
				seen[d] = true
				visit(d)
				order = append(order, d)
			}
		}
	}
	visit(m)
	for i, j := 0, len(order)-1; i < j; i, j = i+1, j-1 {
		order[i], order[j] = order[j], order[i]
	}
	return order
}
