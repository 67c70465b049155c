const digits = {{str .digits}};
console.log(digits + " in {{.base}} = " + parseInt(digits, {{if eq .base "binary"}}2{{else}}8{{end}}));
