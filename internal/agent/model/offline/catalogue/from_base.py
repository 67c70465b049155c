digits = {{str .digits}}
print(f"{digits} in {{.base}} = {int(digits, {{if eq .base "binary"}}2{{else}}8{{end}})}")
