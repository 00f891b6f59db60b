package kmod

import (
	"fmt"
	"strconv"
	"strings"

	"fitout/hostops"
)

// JoinParams makes the one string that init_module(2) takes out of "NAME=VALUE"
// items; "" for none. A value with blanks is put in double quotes, the only
// quoting the kernel knows (lib/cmdline.c, next_arg); commas and semicolons
// need none and stay as they are. Values that hold a double quote cannot be
// quoted, see [CheckParam].
func JoinParams(params []string) string {
	var b strings.Builder
	for _, p := range params {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		name, value, ok := strings.Cut(p, "=")
		b.WriteString(name)
		if !ok {
			continue
		}
		b.WriteByte('=')
		value = unquote(value)
		if strings.ContainsAny(value, " \t\n\r\v\f") {
			value = `"` + value + `"`
		}
		b.WriteString(value)
	}
	return b.String()
}

// unquote takes the quotes off a value that is quoted as a whole, as people
// write it for modprobe.
func unquote(value string) string {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}

// CheckParam says what is wrong with one "NAME=VALUE" item, nil when the kernel
// can take it.
func CheckParam(p string) error {
	name, value, _ := strings.Cut(p, "=")
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("parameter %q: the name is missing", p)
	case strings.ContainsAny(name, " \t\n\""):
		return fmt.Errorf("parameter %q: a name has no blanks and no quotes", p)
	case strings.ContainsAny(unquote(value), "\"\x00"):
		return fmt.Errorf("parameter %q: the kernel's command line cannot carry a double quote or a NUL byte in a value", p)
	}
	return nil
}

// splitParams takes a parameter string apart as the kernel does: at blanks
// outside double quotes.
func splitParams(params string) []string {
	var items []string
	var item strings.Builder
	quoted := false
	flush := func() {
		if item.Len() > 0 {
			items = append(items, item.String())
		}
		item.Reset()
	}
	for _, c := range params {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && strings.ContainsRune(" \t\n\r\v\f", c):
			flush()
		default:
			item.WriteRune(c)
		}
	}
	flush()
	return items
}

// unlikeParams compares what a module was given with what it shows below
// /sys/module, one sentence a difference. Parameters that it does not show are
// not compared.
func unlikeParams(n *hostops.Node, name, params string) []string {
	var found []string
	for _, p := range splitParams(params) {
		key, want, _ := strings.Cut(p, "=")
		got, err := n.ReadString("/sys/module/" + name + "/parameters/" + key)
		if err != nil || sameValue(got, want) {
			continue
		}
		found = append(found, fmt.Sprintf("parameter %s of %s was given as %q and reads back as %q", key, name, want, got))
	}
	return found
}

// sameValue compares values as the kernel's parameter types write them: a bool
// reads Y or N, a number in decimal.
func sameValue(got, want string) bool {
	return got == want || plainValue(got) == plainValue(want)
}

func plainValue(v string) string {
	switch strings.ToLower(v) {
	case "", "y", "yes", "on", "true", "1":
		return "1" // a bool without a value is switched on
	case "n", "no", "off", "false", "0":
		return "0"
	}
	if n, err := strconv.ParseInt(v, 0, 64); err == nil { // 0x10, 020 and 16 are one
		return strconv.FormatInt(n, 10)
	}
	return v
}
