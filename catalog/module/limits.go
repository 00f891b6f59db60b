package module

// Limits bound what reading one file may cost, and say how much of it is
// wanted. The zero value means the defaults and everything.
type Limits struct {
	// MaxSize is the largest uncompressed file in bytes; 0 means
	// [DefaultMaxSize].
	MaxSize int64
	// MaxWindow is the largest decoder window in bytes; 0 means
	// [DefaultMaxWindow].
	MaxWindow int64
	// Only restricts the read to these parts; 0 means all of them.
	Only Part
}

// Default limits. The largest module in the field (amdgpu with debug data) has
// some 450 MiB; kmod packs with windows of 1 to 8 MiB, `xz -9` with 64.
const (
	DefaultMaxSize   = 512 << 20
	DefaultMaxWindow = 64 << 20
)

// Part is a part of a module file. What is said by the section headers alone
// (machine, size of struct module) is always read.
type Part uint8

// The parts, cheapest first.
const (
	Modinfo    Part = 1 << iota // what modinfo prints
	Versions                    // CRCs of imported symbols
	Signed                      // the appended signature
	BuildIDs                    // the GNU build id
	Symbols                     // imports and exports from the symbol table
	Content                     // with Signed: the digest that was signed, over the whole file
	Everything = Modinfo | Versions | Signed | BuildIDs | Symbols | Content
	// Light is what matching, ordering and the harvest of a kernel's symbol
	// versions need: four small reads a file.
	Light = Modinfo | Versions
)

func (l Limits) withDefaults() Limits {
	if l.MaxSize <= 0 {
		l.MaxSize = DefaultMaxSize
	}
	if l.MaxWindow <= 0 {
		l.MaxWindow = DefaultMaxWindow
	}
	if l.Only == 0 {
		l.Only = Everything
	}
	return l
}
