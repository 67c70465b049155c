package openai

import (
	"encoding/json"

	"hortus.dev/api"
)

// readSchema reads a JSON schema of an object, and reports whether strict mode
// takes it.
func readSchema(name string, raw json.RawMessage) (schema map[string]any, strict bool, err error) {
	if err := json.Unmarshal(raw, &schema); err != nil || schema == nil {
		return nil, false, api.Errorf(api.KindInvalid, "openai: the schema of %s is not a JSON object", name)
	}
	return schema, schema["type"] == "object" && isStrict(schema), nil
}

// isStrict reports whether a schema is within what strict mode knows: every object
// lists all its properties as required and is closed.
func isStrict(s map[string]any) bool {
	switch s["type"] {
	case "object":
		properties, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		if s["additionalProperties"] != false || len(required) != len(properties) {
			return false
		}
		for _, name := range required {
			n, _ := name.(string)
			p, ok := properties[n].(map[string]any)
			if !ok || !isStrict(p) {
				return false
			}
		}
	case "array":
		items, ok := s["items"].(map[string]any)
		return ok && isStrict(items)
	case "string", "integer", "number", "boolean":
	default:
		return false
	}
	for key := range s {
		switch key {
		case "type", "properties", "required", "additionalProperties", "items", "enum", "description":
		default:
			return false
		}
	}
	return true
}
