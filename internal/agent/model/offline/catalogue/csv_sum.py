import csv

rows = [("apples", 3), ("pears", 5), ("plums", 9)]
with open({{str .file}}, "w", newline="") as f:
    writer = csv.writer(f)
    writer.writerow(["item", "amount"])
    writer.writerows(rows)

with open({{str .file}}, newline="") as f:
    total = sum(int(row["amount"]) for row in csv.DictReader(f))
print(f"Sum of amount: {total}")
