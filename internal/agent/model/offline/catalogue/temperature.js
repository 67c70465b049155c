const value = {{num .value}};
{{if eq .from "celsius"}}const kelvin = value + 273.15;
{{else if eq .from "fahrenheit"}}const kelvin = ((value - 32) * 5) / 9 + 273.15;
{{else}}const kelvin = value;
{{end -}}
{{if eq .to "celsius"}}const result = kelvin - 273.15;
{{else if eq .to "fahrenheit"}}const result = ((kelvin - 273.15) * 9) / 5 + 32;
{{else}}const result = kelvin;
{{end -}}
console.log(value + " {{.from}} = " + Number(result.toFixed(2)) + " {{.to}}");
