n = {{num .n}}
{{if has .bases "binary"}}print(f"binary: {n:b}")
{{end -}}
{{if has .bases "octal"}}print(f"octal: {n:o}")
{{end -}}
{{if has .bases "hexadecimal"}}print(f"hexadecimal: {n:x}")
{{end}}
