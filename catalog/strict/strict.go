// Package strict reads the YAML files people write for fitout, and says
// everything that is wrong with one at once: unknown, doubled and missing keys,
// wrong types, bad values, each with its line, its column and the line itself.
//
// The Go type is the format: a field's yaml tag is its key; a field without
// omitempty must be there. Keys without a value are errors: what is not set is
// left out.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds a file; people write these.
const maxSize = 4 << 20

// Checker is implemented by file types that have more rules than their Go type
// says. Check is called once after reading, also when reading found problems:
// fields with problems are zero then, and what is reported about them again is
// dropped.
type Checker interface{ Check(r *Report) }

// Decode reads one YAML document into a pointer to a struct. The error is
// *Errors; into holds what could be read all the same.
func Decode(file string, data []byte, into any) error {
	r := &Report{errs: &Errors{File: file}, lines: strings.Split(string(data), "\n")}
	root, ok := r.parse(data)
	if !ok {
		return r.errs.orNil()
	}
	v := reflect.ValueOf(into).Elem()
	r.root, r.elsewhere = root, map[string][]string{}
	places(v.Type(), ".", r.elsewhere)
	r.value(root, v, nil)
	if c, ok := into.(Checker); ok {
		c.Check(r)
	}
	return r.errs.orNil()
}

// parse returns the root of the only document.
func (r *Report) parse(data []byte) (*yaml.Node, bool) {
	if len(data) > maxSize {
		r.add(1, 1, nil, fmt.Sprintf("the file is larger than %d MiB", maxSize>>20))
		return nil, false
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || isNull(doc.Content[0])) {
		r.add(1, 1, nil, "the file is empty")
		return nil, false
	}
	if err != nil {
		r.syntax(err)
		return nil, false
	}
	if err := d.Decode(&more); err == nil {
		r.add(more.Line, 1, nil, "a second document begins here: a file holds one")
		return nil, false
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil, false
	}
	return doc.Content[0], true
}

// syntax turns the parser's own message into a problem.
func (r *Report) syntax(err error) {
	yamlLine := regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)
	m := yamlLine.FindStringSubmatch(strings.SplitN(err.Error(), "\n", 2)[0])
	line, _ := strconv.Atoi(m[1])
	r.add(max(line, 1), 1, nil, "this is not YAML: "+m[2])
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
