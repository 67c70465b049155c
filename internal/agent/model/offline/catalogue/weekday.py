from datetime import date

day = date.fromisoformat({{str .day}})
names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
print(f"{day} is a {names[day.weekday()]}")
