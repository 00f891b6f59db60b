package module

import (
	"debug/elf"
	"strings"
)

// readVersions reads the CRCs a module was built against: __versions, 64-byte
// entries of a CRC as wide as a long and a name (struct modversion_info), and
// the form of kernels since 6.14 for names that do not fit
// (__version_ext_crcs, __version_ext_names).
func (i *Info) readVersions(f *file, buf *[]byte) error {
	versions, crcs, names := f.find("__versions"), f.find("__version_ext_crcs"), f.find("__version_ext_names")
	if versions != nil {
		data, err := f.data(versions, *buf)
		if err != nil {
			return err
		}
		f.grow(buf, data)
		i.Imports = append(i.Imports, plainVersions(f, data)...)
	}
	if crcs != nil && names != nil {
		numbers, err := f.data(crcs, nil)
		if err != nil {
			return err
		}
		text, err := f.data(names, nil)
		if err != nil {
			return err
		}
		i.addVersions(extendedVersions(f, numbers, text))
	}
	i.HasCRCs = versions != nil || crcs != nil
	return nil
}

func plainVersions(f *file, data []byte) []Import {
	const entry = 64
	wide := 4
	if f.is64 {
		wide = 8
	}
	list := make([]Import, 0, len(data)/entry)
	spans := newArena(len(data) / entry)
	for ; len(data) >= entry; data = data[entry:] {
		name := cString(data[wide:entry])
		if len(name) == 0 {
			continue
		}
		crc := f.order.Uint32(data)
		if f.is64 {
			crc = uint32(f.order.Uint64(data))
		}
		spans.add(name)
		list = append(list, Import{CRC: crc, HasCRC: true})
	}
	for n, name := range spans.strings() {
		list[n].Name, list[n].VersionOnly = name, name == "module_layout"
	}
	return list
}

func extendedVersions(f *file, crcs, names []byte) []Import {
	text := string(names)
	list := make([]Import, 0, len(crcs)/4)
	for ; len(crcs) >= 4 && text != ""; crcs = crcs[4:] {
		var name string
		name, text, _ = strings.Cut(text, "\x00")
		list = append(list, Import{Name: name, CRC: f.order.Uint32(crcs), HasCRC: true, VersionOnly: name == "module_layout"})
	}
	return list
}

// addVersions adds entries for symbols that have none yet.
func (i *Info) addVersions(list []Import) {
	have := make(map[string]bool, len(i.Imports))
	for _, s := range i.Imports {
		have[s.Name] = true
	}
	for _, s := range list {
		if s.Name != "" && !have[s.Name] {
			i.Imports = append(i.Imports, s)
		}
	}
}

// arena keeps many short names in one string.
type arena struct {
	text []byte
	ends []int
}

func newArena(n int) *arena { return &arena{text: make([]byte, 0, n*20), ends: make([]int, 0, n)} }

func (a *arena) add(name []byte) {
	a.text = append(a.text, name...)
	a.ends = append(a.ends, len(a.text))
}

func (a *arena) strings() []string {
	all, list, from := string(a.text), make([]string, len(a.ends)), 0
	for n, end := range a.ends {
		list[n], from = all[from:end], end
	}
	return list
}

// symbol is an entry of .symtab.
type symbol struct {
	name    []byte
	bind    byte
	section uint16
	value   uint64
}

// eachSymbol calls fn for every named symbol; names are valid during the call.
func (f *file) eachSymbol(buf *[]byte, fn func(symbol)) error {
	table := f.ofKind(elf.SHT_SYMTAB)
	if table == nil || int(table.link) >= len(f.sections) {
		return nil
	}
	data, err := f.data(table, *buf)
	if err != nil {
		return err
	}
	f.grow(buf, data)
	text, err := f.data(&f.sections[table.link], nil)
	if err != nil {
		return err
	}
	entry := 16
	if f.is64 {
		entry = 24
	}
	for ; len(data) >= entry; data = data[entry:] {
		if at := f.order.Uint32(data); at != 0 && uint64(at) < uint64(len(text)) {
			fn(f.symbol(data, cString(text[at:])))
		}
	}
	return nil
}

func (f *file) symbol(b, name []byte) symbol {
	if f.is64 {
		return symbol{name: name, bind: b[4] >> 4, section: f.order.Uint16(b[6:]), value: f.order.Uint64(b[8:])}
	}
	return symbol{name: name, value: uint64(f.order.Uint32(b[4:])), bind: b[12] >> 4, section: f.order.Uint16(b[14:])}
}

// raw is what the symbol table says of exports before it is put together.
type raw struct {
	exports    []Export
	index      map[string]int
	crcs       map[string]symbol
	namespaces map[string]symbol
}

// readSymbols reads imports (undefined symbols) and exports (__ksymtab_NAME
// symbols; their CRC in __crc_NAME, their namespace at __kstrtabns_NAME).
func (i *Info) readSymbols(f *file, buf *[]byte) error {
	versions := i.Imports
	byName := make(map[string]int, len(versions))
	for n := range versions {
		byName[versions[n].Name] = n
		versions[n].VersionOnly = true
	}
	r := raw{index: map[string]int{}, crcs: map[string]symbol{}, namespaces: map[string]symbol{}}
	err := f.eachSymbol(buf, func(s symbol) {
		if s.section != uint16(elf.SHN_UNDEF) {
			r.defined(f, s)
			return
		}
		weak := elf.SymBind(s.bind) == elf.STB_WEAK
		if n, ok := byName[string(s.name)]; ok {
			versions[n].VersionOnly, versions[n].Weak = false, weak
		} else if !ignored(s.name) {
			i.Imports = append(i.Imports, Import{Name: string(s.name), Weak: weak})
		}
	})
	if err != nil {
		return err
	}
	i.Exports = r.exports
	return r.finish(f)
}

// ignored symbols are made up by linkers; the kernel does not look them up
// (module_arch, ignore_undef_symbol).
func ignored(name []byte) bool {
	switch string(name) {
	case "_GLOBAL_OFFSET_TABLE_", "_gp_disp", ".TOC.", "_TOC_":
		return true
	}
	return false
}

func (r *raw) defined(f *file, s symbol) {
	if len(s.name) < 8 || s.name[0] != '_' || s.name[1] != '_' {
		return
	}
	name := string(s.name)
	switch {
	case strings.HasPrefix(name, "__ksymtab_"):
		switch section := string(f.sectionName(int(s.section))); section {
		case "__ksymtab", "__ksymtab_gpl":
			r.index[name[10:]] = len(r.exports)
			r.exports = append(r.exports, Export{Name: name[10:], GPLOnly: section == "__ksymtab_gpl"})
		}
	case strings.HasPrefix(name, "__crc_"):
		r.crcs[name[6:]] = s
	case strings.HasPrefix(name, "__kstrtabns_"):
		r.namespaces[name[12:]] = s
	}
}

// finish looks up CRCs and namespaces. A CRC is the value of an absolute
// symbol (kernels before 5.19 without relative CRCs) or four bytes at it.
func (r *raw) finish(f *file) error {
	if len(r.exports) == 0 {
		return nil
	}
	held := map[uint16][]byte{}
	at := func(s symbol) ([]byte, error) {
		if int(s.section) >= len(f.sections) {
			return nil, nil
		}
		data, ok := held[s.section]
		if !ok {
			var err error
			if data, err = f.data(&f.sections[s.section], nil); err != nil {
				return nil, err
			}
			held[s.section] = data
		}
		if s.value > uint64(len(data)) {
			return nil, nil
		}
		return data[s.value:], nil
	}
	for name, s := range r.crcs {
		n, ok := r.index[name]
		if !ok {
			continue
		}
		if s.section == uint16(elf.SHN_ABS) {
			r.exports[n].CRC, r.exports[n].HasCRC = uint32(s.value), true
			continue
		}
		data, err := at(s)
		if err != nil {
			return err
		}
		if len(data) >= 4 {
			r.exports[n].CRC, r.exports[n].HasCRC = f.order.Uint32(data), true
		}
	}
	for name, s := range r.namespaces {
		n, ok := r.index[name]
		if !ok {
			continue
		}
		data, err := at(s)
		if err != nil {
			return err
		}
		r.exports[n].Namespace = string(cString(data))
	}
	return nil
}
