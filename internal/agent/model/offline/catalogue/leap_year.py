year = {{num .year}}
leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
print(f"{year} is {'a' if leap else 'not a'} leap year")
