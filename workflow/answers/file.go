package answers

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"fitout/catalog/strict"
	"fitout/hostops"
)

// header begins every file that is written.
const header = "# fitout answers. What the keys mean: fitout answers schema. Check it: fitout answers check FILE\n"

// Read reads an answers file. The error is *strict.Errors and has everything
// that is wrong with it.
func Read(file string, data []byte) (*Answers, error) {
	a := &Answers{}
	if err := strict.Decode(file, data, a); err != nil {
		return nil, err
	}
	return a, nil
}

// Marshal writes a file as Read reads it; what is not set is left out. What Read
// would refuse is not written: the error says what that is.
func Marshal(a *Answers) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(header)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(a); err != nil {
		return nil, fmt.Errorf("writing answers: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("writing answers: %w", err)
	}
	if _, err := Read("answers", b.Bytes()); err != nil {
		return nil, fmt.Errorf("the answers would not be accepted again:\n%w", err)
	}
	return b.Bytes(), nil
}

// Save writes a file on the node, readable by its owner and group: it names
// people and places of secrets.
func Save(n *hostops.Node, path string, a *Answers) error {
	data, err := Marshal(a)
	if err != nil {
		return err
	}
	if err := n.WriteFile(path, data, 0o640); err != nil {
		return fmt.Errorf("saving the answers: %w", err)
	}
	return nil
}
