import re

text = {{str .text}}
found = re.findall(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", text)
for address in found:
    print(address)
if not found:
    print("none")
