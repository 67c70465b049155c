const text = {{str .text}};
{{if eq .mode "title"}}console.log(text.split(" ").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase()).join(" "));{{else if eq .mode "upper"}}console.log(text.toUpperCase());{{else}}console.log(text.toLowerCase());{{end}}
