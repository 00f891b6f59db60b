package answers

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"fitout/catalog/strict"
)

// Schema is the JSON schema (draft 2020-12) of the file, made from the struct
// that reads it.
func Schema() []byte {
	root := schemaOf(reflect.TypeFor[Answers](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "fitout answers file, " + APIVersion
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // maps, slices and strings always have a JSON form
	}
	return append(text, '\n')
}

func schemaOf(t reflect.Type, path string) map[string]any {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem(), path)
	}
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Struct:
		return objectSchema(t, path)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), path)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), path)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	}
	s := map[string]any{"type": "string"}
	if words, ok := choices[path]; ok {
		s["enum"] = words
	}
	if p, ok := patterns[path]; ok {
		s["pattern"] = p.pattern
	}
	return s
}

func objectSchema(t reflect.Type, path string) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range strict.Fields(t) {
		field := t.Field(f.Index)
		s := schemaOf(field.Type, strings.TrimPrefix(path+"."+f.Key, "."))
		if doc := field.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[f.Key] = s
		if f.Required {
			required = append(required, f.Key)
		}
	}
	o := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}
