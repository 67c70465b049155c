text = {{str .text}}
counts = {
{{- if has .what "words"}}
    "words": len(text.split()),{{end}}
{{- if has .what "characters"}}
    "characters": len(text),{{end}}
{{- if has .what "letters"}}
    "letters": sum(c.isalpha() for c in text),{{end}}
{{- if has .what "lines"}}
    "lines": len(text.splitlines()),{{end}}
{{- if has .what "vowels"}}
    "vowels": sum(c in "aeiou" for c in text.lower()),{{end}}
{{- if has .what "consonants"}}
    "consonants": sum(c.isalpha() and c not in "aeiou" for c in text.lower()),{{end}}
}
for name, count in counts.items():
    print(f"{name}: {count}")
