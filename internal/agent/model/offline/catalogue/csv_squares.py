import csv

with open({{str .file}}, "w", newline="") as f:
    writer = csv.writer(f)
    writer.writerow(["number", "square"])
    for i in range(1, {{num .n}} + 1):
        writer.writerow([i, i * i])
print("Wrote", {{str .file}})
