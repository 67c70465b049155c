value = {{num .value}}
{{if eq .from "celsius"}}kelvin = value + 273.15
{{else if eq .from "fahrenheit"}}kelvin = (value - 32) * 5 / 9 + 273.15
{{else}}kelvin = value
{{end -}}
{{if eq .to "celsius"}}result = kelvin - 273.15
{{else if eq .to "fahrenheit"}}result = (kelvin - 273.15) * 9 / 5 + 32
{{else}}result = kelvin
{{end -}}
print(f"{value:g} {{.from}} = {round(result, 2):g} {{.to}}")
