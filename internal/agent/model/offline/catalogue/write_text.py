with open({{str .file}}, "w", encoding="utf-8") as f:
    f.write({{str .text}} + "\n")
print("Wrote", {{str .file}})
