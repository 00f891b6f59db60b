package choice

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"fitout/workflow/answers"
)

// Encode writes answers as the YAML of an answers file.
func Encode(a *answers.Answers) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# fitout answers. Check it:  fitout answers check FILE\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(a); err != nil {
		return nil, fmt.Errorf("writing the answers as YAML: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("writing the answers as YAML: %w", err)
	}
	return b.Bytes(), nil
}
