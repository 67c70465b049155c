from datetime import date

first = date.fromisoformat({{str .first}})
second = date.fromisoformat({{str .second}})
print(f"Days from {first} to {second}: {(second - first).days}")
