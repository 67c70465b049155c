import hashlib

text = {{str .text}}
print(hashlib.{{.algorithm}}(text.encode("utf-8")).hexdigest())
