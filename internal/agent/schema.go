package agent

import (
	"encoding/json"
	"reflect"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// schemaOf returns the JSON Schema of an api type: objects with their required
// fields and no others, so that what a model may answer is what parse accepts.
func schemaOf(v any) json.RawMessage {
	b, err := json.Marshal(schemaType(reflect.TypeOf(v)))
	if err != nil {
		// The tree holds maps, slices and strings alone.
		panic(err)
	}
	return b
}

// enums are the closed sets of the named types.
func enum(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[api.Language]():
		return language.Names()
	case reflect.TypeFor[api.OutputKind]():
		return []string{string(api.OutputText), string(api.OutputJSON), string(api.OutputFile), string(api.OutputNone)}
	case reflect.TypeFor[api.Category]():
		return categoryNames()
	}
	return nil
}

func schemaType(t reflect.Type) map[string]any {
	if names := enum(t); names != nil {
		return map[string]any{"type": "string", "enum": names}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaType(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaType(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaType(t.Elem())}
	}
	properties := map[string]any{}
	required := []string{}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" || name == "" || t.Field(i).Tag.Get("schema") == "-" {
			continue
		}
		property := schemaType(t.Field(i).Type)
		if text := descriptions[t.Name()+"."+name]; text != "" {
			property["description"] = text
		}
		properties[name] = property
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}

// categories is the closed set of failures.
var categories = [...]api.Category{
	api.CategoryImport, api.CategorySyntax, api.CategoryName, api.CategoryType, api.CategoryValue,
	api.CategoryMissingFile, api.CategoryPermission, api.CategoryNetwork, api.CategoryTimeout,
	api.CategoryMemory, api.CategoryDisk, api.CategoryOutputLimit, api.CategoryInstall,
	api.CategoryPlaceholder, api.CategoryWrongOutput, api.CategoryCommand, api.CategoryUnknown,
}

func categoryNames() []string {
	names := make([]string, len(categories))
	for i, c := range categories {
		names[i] = string(c)
	}
	return names
}
