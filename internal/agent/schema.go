package agent

import (
	"encoding/json"
	"reflect"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/plan"
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

// enum returns the names of the values of a named type that is a closed set; nil for another type.
func enum(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[api.Language]():
		return language.Names()
	case reflect.TypeFor[api.OutputKind]():
		return []string{string(api.OutputText), string(api.OutputJSON), string(api.OutputFile), string(api.OutputNone)}
	case reflect.TypeFor[plan.Verdict]():
		return []string{string(plan.Grant), string(plan.Deny)}
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

// descriptions are the texts of the fields in the schemas that the roles' models fill in,
// by type and field.
var descriptions = map[string]string{
	"ExecutionPlan.language":     "Programming language of the program.",
	"ExecutionPlan.dependencies": `Third-party packages. Omit them if the standard library is enough. Example: ["requests"].`,
	"ExecutionPlan.shell":        `Shell that runs the commands: "bash" or "sh".`,
	"ExecutionPlan.task":         "What the program does, complete and in your own words.",
	"ExecutionPlan.parameters":   `Every value in the request, by name. Example: {"count": "10"}.`,
	"ExecutionPlan.output":       "Kind of output.",
	"ExecutionPlan.files":        `Paths that the program must create, relative to its directory. Set them only if output is "file". Example: ["report.csv"].`,
	"ExecutionPlan.compile":      "Omit this field. The platform sets it.",
	"ExecutionPlan.run":          "Omit this field. The platform sets it.",
	"ExecutionPlan.checks":       "Commands that verify the result after the program has run.",

	"Check.name":    `What the check verifies, in a few words. Example: "ten lines".`,
	"Check.command": `Bash command. Exit code 0 means that the check passes. Example: "test $(wc -l <\"$OUTPUT\") = 10".`,

	"CodeArtifact.language":         "Programming language of the program, as in the plan.",
	"CodeArtifact.files":            "All files of the program.",
	"CodeArtifact.install":          `Command that installs the dependencies. Omit it if there are none. Example: "python3 -m pip install requests".`,
	"CodeArtifact.compile":          `Command that compiles the program. Omit it if there is nothing to compile. Example: "gcc -o program main.c".`,
	"CodeArtifact.run":              `Command that runs the program. Example: "python3 main.py".`,
	"CodeArtifact.shell":            `Shell that runs the commands: "bash" or "sh".`,
	"CodeArtifact.output":           "Kind of output, as in the plan.",
	"CodeArtifact.expect":           `Paths that the program must create, as in the plan's files. Example: ["report.csv"].`,
	"CodeArtifact.installTimeoutMs": "Timeout of install and compile in milliseconds. Omit it for the default.",
	"CodeArtifact.runTimeoutMs":     "Timeout of run in milliseconds. Omit it for the default.",
	"CodeArtifact.note":             "What this version is or what you changed, in one sentence.",

	"File.path":       `Path relative to the workspace, with slashes. It must not contain "..". Example: "src/main.py".`,
	"File.content":    "Complete content of the file.",
	"File.executable": "Make the file executable. The default is false.",

	"Diagnosis.category": "Category of the failure.",
	"Diagnosis.cause":    "Root cause of the failure, in one sentence.",
	"Diagnosis.artifact": "Corrected program. Omit it if you ask a question.",
	"AmendAnswer.answer": "Whether the item may change the files.",
	"AmendAnswer.reason": "Why, in one sentence.",

	"Diagnosis.question": "What a person must decide. Omit it if you return an artifact.",
}
