import base64

text = {{str .text}}
{{if eq .mode "decode"}}print(base64.b64decode(text, validate=True).decode("utf-8")){{else}}print(base64.b64encode(text.encode("utf-8")).decode("ascii")){{end}}
