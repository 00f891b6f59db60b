package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// Variables are the names a reference may use, in the form ${NAME} or $NAME. The
// KERNEL ones mean what they mean in KMM.
var Variables = []string{
	"KERNEL_FULL_VERSION", "KERNEL_VERSION", "KERNEL_XYZ", "KERNEL_X", "KERNEL_Y", "KERNEL_Z", "OS_TAG", "ARCH",
}

// variable finds a use of a variable, well formed or not.
var variable = lazy(`\$(?:\{([^}]*)\}?|([A-Za-z_][A-Za-z0-9_]*)|)`)

// UnknownVariableError is a template that uses what does not exist.
type UnknownVariableError struct{ Template, Variable string }

func (e *UnknownVariableError) Error() string {
	return fmt.Sprintf("the reference %q uses %q, which is no variable; there are %s", e.Template, e.Variable, strings.Join(Variables, ", "))
}

// EmptyVariableError is a variable without a value on this node. No reference is
// made with an empty part.
type EmptyVariableError struct {
	Variable string
	Why      error
}

func (e *EmptyVariableError) Error() string {
	return fmt.Sprintf("${%s} is empty: %v", e.Variable, e.Why)
}

func (e *EmptyVariableError) Unwrap() error { return e.Why }

// usedVariables lists the variables of a template in order, once each.
func usedVariables(template string) ([]string, error) {
	var used []string
	for _, m := range variable().FindAllStringSubmatch(template, -1) {
		name := m[1] + m[2]
		if !slices.Contains(Variables, name) || strings.HasPrefix(m[0], "${") && !strings.HasSuffix(m[0], "}") {
			return nil, &UnknownVariableError{template, m[0]}
		}
		if !slices.Contains(used, name) {
			used = append(used, name)
		}
	}
	return used, nil
}

// expandTemplate puts values in.
func expandTemplate(template string, values map[string]string) string {
	return variable().ReplaceAllStringFunc(template, func(use string) string {
		return values[strings.Trim(use, "${}")]
	})
}
