const text = {{str .text}};
{{if eq .mode "decode"}}console.log(Buffer.from(text, "base64").toString("utf8"));{{else}}console.log(Buffer.from(text, "utf8").toString("base64"));{{end}}
