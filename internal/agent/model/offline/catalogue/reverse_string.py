text = {{str .text}}
print(text[::-1])
