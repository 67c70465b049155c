words = {{strs .words}}
for word in sorted(words, key=str.lower{{if eq .order "desc"}}, reverse=True{{end}}):
    print(word)
