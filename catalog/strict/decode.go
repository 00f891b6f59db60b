package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds nesting; no format here comes near.
const maxDepth = 32

var timeType = reflect.TypeFor[time.Time]()

// value reads n into v. v stays zero where there is a problem.
func (r *Report) value(n *yaml.Node, v reflect.Value, path []any) {
	bad := func(format string, args ...any) {
		r.add(n.Line, n.Column, path, label(path)+" "+fmt.Sprintf(format, args...))
	}
	switch {
	case len(path) > maxDepth:
		bad("is nested too deeply")
		return
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		bad("uses an anchor or alias: write the value out")
		return
	case isNull(n):
		bad("has no value: leave the key out, or give it one")
		return
	}
	if v.Type() == timeType {
		t, err := time.Parse(time.RFC3339, n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			bad("must be a time like 2026-11-30T14:01:12Z")
			return
		}
		v.Set(reflect.ValueOf(t))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		r.value(n, fresh.Elem(), path)
		v.Set(fresh)
	case reflect.Struct:
		r.structure(n, v, path, bad)
	case reflect.Slice:
		r.list(n, v, path, bad)
	case reflect.Map:
		r.table(n, v, path, bad)
	default:
		scalar(n, v, bad)
	}
}

type complain func(format string, args ...any)

func scalar(n *yaml.Node, v reflect.Value, bad complain) {
	if n.Kind != yaml.ScalarNode {
		bad("must be %s, not %s", kindWord(v.Type()), nodeWord(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		// A day is text for every format here, whatever YAML makes of it.
		if n.Tag != "!!str" && n.Tag != "!!timestamp" {
			bad("must be text: write it in quotes, %q", n.Value)
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			bad("must be true or false, not %q", n.Value)
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64:
		i, err := strconv.Atoi(n.Value)
		if n.Tag != "!!int" || err != nil {
			bad("must be a whole number, not %q", n.Value)
			return
		}
		v.SetInt(int64(i))
	default:
		panic("strict: no reader for " + v.Type().String())
	}
}

func (r *Report) list(n *yaml.Node, v reflect.Value, path []any, bad complain) {
	if n.Kind != yaml.SequenceNode {
		bad("must be a list, not %s", nodeWord(n))
		return
	}
	if len(n.Content) == 0 {
		return // the same as leaving it out
	}
	all := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		r.value(item, all.Index(i), with(path, i))
	}
	v.Set(all)
}

func (r *Report) table(n *yaml.Node, v reflect.Value, path []any, bad complain) {
	if n.Kind != yaml.MappingNode {
		bad("must be a table of keys, not %s", nodeWord(n))
		return
	}
	all := reflect.MakeMap(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		here := with(path, k.Value)
		switch {
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			r.add(k.Line, k.Column, here, fmt.Sprintf("the key %q%s must be text: write it in quotes", k.Value, under(path)))
			continue
		case all.MapIndex(reflect.ValueOf(k.Value)).IsValid():
			r.add(k.Line, k.Column, here, fmt.Sprintf("the key %q%s is there twice", k.Value, under(path)))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		r.value(n.Content[i+1], item, here)
		all.SetMapIndex(reflect.ValueOf(k.Value), item)
	}
	if all.Len() > 0 {
		v.Set(all)
	}
}

func (r *Report) structure(n *yaml.Node, v reflect.Value, path []any, bad complain) {
	if n.Kind != yaml.MappingNode {
		bad("must be a table of keys, not %s", nodeWord(n))
		return
	}
	fields := Fields(v.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		f := slices.IndexFunc(fields, func(f Field) bool { return f.Key == k.Value })
		switch {
		case f < 0:
			r.add(k.Line, k.Column, with(path, k.Value), fmt.Sprintf("unknown key %q%s%s", k.Value, under(path), r.nearest(k.Value, v.Type(), path)))
		case seen[k.Value]:
			r.add(k.Line, k.Column, with(path, k.Value), fmt.Sprintf("the key %q%s is there twice", k.Value, under(path)))
		default:
			seen[k.Value] = true
			r.value(n.Content[i+1], v.Field(fields[f].Index), with(path, k.Value))
		}
	}
	for _, f := range fields {
		if f.Required && !seen[f.Key] {
			r.add(n.Line, n.Column, with(path, f.Key), fmt.Sprintf("the key %q is missing%s", f.Key, under(path)))
		}
	}
}

// Field is one key of a struct's format.
type Field struct {
	Key      string
	Index    int
	Required bool
}

// Fields lists the keys of a struct type in their order.
func Fields(t reflect.Type) []Field {
	var all []Field
	for i := range t.NumField() {
		key, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		all = append(all, Field{Key: key, Index: i, Required: !strings.Contains(options, "omitempty")})
	}
	return all
}

func with(path []any, step any) []any { return append(slices.Clone(path), step) }

// label names a value in a sentence.
func label(path []any) string {
	if len(path) == 0 {
		return "the file"
	}
	return pathText(path)
}

func under(path []any) string {
	if len(path) == 0 {
		return ""
	}
	return " under " + pathText(path)
}

func nodeWord(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a table of keys"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}

func kindWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "text"
}
