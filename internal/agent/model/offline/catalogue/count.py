for i in range({{num .a}}, {{num .b}} {{if .down}}- 1, -1{{else}}+ 1{{end}}):
{{if .filter}}    if i % 2 == {{if eq .filter "even"}}0{{else}}1{{end}}:
        print(i){{else}}    print(i){{end}}
