package module

import (
	"bytes"
	"strings"
)

// Parameter fields come as "name:text" in two keys, parm and parmtype.
func (i *Info) parameter(name string) *Parameter {
	for k := range i.Parameters {
		if i.Parameters[k].Name == name {
			return &i.Parameters[k]
		}
	}
	i.Parameters = append(i.Parameters, Parameter{Name: name})
	return &i.Parameters[len(i.Parameters)-1]
}

// parseModinfo reads a .modinfo section: "key=value" strings, each ended by one
// or more NULs. A key may come many times: lists are joined in order, and of
// single values the first counts, as in the kernel's get_modinfo.
func (i *Info) parseModinfo(section []byte) {
	text := string(section)
	for text != "" {
		var entry string
		entry, text, _ = strings.Cut(text, "\x00")
		if key, value, ok := strings.Cut(entry, "="); ok {
			i.modinfoEntry(key, value)
		}
	}
}

func (i *Info) modinfoEntry(key, value string) {
	first := func(field *string) {
		if *field == "" {
			*field = value
		}
	}
	switch key {
	case "name":
		first(&i.Name)
	case "vermagic":
		first(&i.Vermagic)
	case "version":
		first(&i.Version)
	case "srcversion":
		first(&i.Srcversion)
	case "license":
		first(&i.License)
	case "supported":
		first(&i.Supported)
	case "intree":
		i.InTree = i.InTree || value == "Y"
	case "alias":
		i.Aliases = append(i.Aliases, value)
	case "firmware":
		i.Firmware = append(i.Firmware, value)
	case "import_ns":
		i.ImportNS = append(i.ImportNS, value)
	case "depends":
		i.Depends = appendNames(i.Depends, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }))
	case "weakdep":
		i.WeakDeps = appendNames(i.WeakDeps, strings.Fields(value))
	case "softdep":
		i.softdep(value)
	case "parm":
		name, text, _ := strings.Cut(value, ":")
		i.parameter(name).Description = text
	case "parmtype":
		name, text, _ := strings.Cut(value, ":")
		i.parameter(name).Type = text
	}
}

// softdep reads one "pre: a b post: c" line; words before a marker are dropped,
// as kmod does.
func (i *Info) softdep(value string) {
	into := (*[]string)(nil)
	for _, word := range strings.Fields(value) {
		switch word {
		case "pre:":
			into = &i.SoftPre
		case "post:":
			into = &i.SoftPost
		default:
			if into != nil {
				*into = appendNames(*into, []string{word})
			}
		}
	}
}

// appendNames adds module names, normalised, each once.
func appendNames(list, names []string) []string {
next:
	for _, name := range names {
		name = Normalize(name)
		for _, have := range list {
			if have == name {
				continue next
			}
		}
		list = append(list, name)
	}
	return list
}

// cString is the text up to the first NUL.
func cString(b []byte) []byte {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return b[:n]
	}
	return b
}
