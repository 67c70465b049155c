{{$f := ""}}{{if eq .filter "even"}}{{$f = " if i % 2 == 0"}}{{else if eq .filter "odd"}}{{$f = " if i % 2 == 1"}}{{end -}}
first = {{num .a}}
last = {{num .b}}
total = sum({{if .storage}}[{{end}}i{{if eq .power "2"}} * i{{else if eq .power "3"}} * i * i{{end}} for i in range(first, last + 1){{$f}}{{if .storage}}]{{end}})
print(f"Sum: {total}")
