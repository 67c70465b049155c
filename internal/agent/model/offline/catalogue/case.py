text = {{str .text}}
print({{if eq .mode "title"}}" ".join(word.capitalize() for word in text.split(" ")){{else}}text.{{.mode}}(){{end}})
