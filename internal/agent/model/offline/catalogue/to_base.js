const n = {{num .n}};
{{if has .bases "binary"}}console.log("binary: " + n.toString(2));
{{end -}}
{{if has .bases "octal"}}console.log("octal: " + n.toString(8));
{{end -}}
{{if has .bases "hexadecimal"}}console.log("hexadecimal: " + n.toString(16));
{{end}}
