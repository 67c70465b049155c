{{if .json}}import json
{{end}}import re
from collections import Counter

text = {{str .text}}
counts = Counter({{if eq .unit "word"}}re.findall(r"[\w']+", text.lower()){{else}}c for c in text.lower() if c.isalpha(){{end}})
{{if .json}}print(json.dumps(dict(counts.most_common()))){{else}}for item, count in counts.most_common():
    print(f"{item}: {count}"){{end}}
