import random

{{if .seed}}generator = random.Random({{num .seed}}){{else}}generator = random.Random(){{end}}
print(", ".join(str(generator.randint({{num .low}}, {{num .high}})) for _ in range({{num .n}})))
