{{if .seed -}}
import random
import string

# A seed makes the same text every time: good for an example, not for a secret.
generator = random.Random({{num .seed}})
{{- else -}}
import secrets
import string

generator = secrets.SystemRandom()
{{- end}}
alphabet = string.ascii_letters + string.digits + "!@#$%&*"
print("".join(generator.choice(alphabet) for _ in range({{num .length}})))
