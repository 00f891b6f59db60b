package strict

import (
	"fmt"
	"reflect"
	"strings"
)

// nearest says which key was probably meant: one of the same table; else one of
// a table above or below; else it lists what is known here.
func (r *Report) nearest(key string, t reflect.Type, path []any) string {
	fields := Fields(t)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	if k := Nearest(key, keys); k != "" {
		return fmt.Sprintf(" (did you mean %q?)", k)
	}
	best, found := "", ""
	for place, list := range r.elsewhere {
		if place == typePath(path) {
			continue
		}
		if k := Nearest(key, list); k != "" && (found == "" || distance(key, k) < distance(key, best) ||
			distance(key, k) == distance(key, best) && place < found) {
			best, found = k, place
		}
	}
	switch {
	case best == "":
		return " (known here: " + strings.Join(keys, ", ") + ")"
	case found == ".":
		return fmt.Sprintf(" (did you mean %q, at the top of the file?)", best)
	}
	return fmt.Sprintf(" (did you mean %q, which belongs under %s?)", best, found)
}

// places lists the keys of every table of a format by the table's path.
func places(t reflect.Type, at string, all map[string][]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map:
		places(t.Elem(), at, all)
	case reflect.Slice:
		places(t.Elem(), at, all)
	case reflect.Struct:
		if t == timeType {
			return
		}
		if _, done := all[at]; done {
			return
		}
		for _, f := range Fields(t) {
			all[at] = append(all[at], f.Key)
		}
		for _, f := range Fields(t) {
			places(t.Field(f.Index).Type, strings.TrimPrefix(at+"."+f.Key, ".."), all)
		}
	}
}

// typePath is a path without indexes, as places has it.
func typePath(path []any) string {
	var keys []string
	for _, step := range path {
		if s, ok := step.(string); ok {
			keys = append(keys, s)
		}
	}
	if len(keys) == 0 {
		return "."
	}
	return strings.Join(keys, ".")
}

// Nearest is the word of known that given is most likely a misspelling of, ""
// when none is near: at most a third of its letters may differ, case and
// hyphens not counted.
func Nearest(given string, known []string) string {
	best, bestDistance := "", len(given)/3+1
	for _, k := range known {
		if d := distance(given, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is how many letters must be changed, added, left out or swapped with
// their neighbour (optimal string alignment).
func distance(a, b string) int {
	x, y := plain(a), plain(b)
	if len(x) > 64 || len(y) > 64 {
		return 64
	}
	before, above := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(y)]
}

func plain(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}
