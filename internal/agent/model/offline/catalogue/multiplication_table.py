n = {{num .n}}
for i in range(1, {{num .upto}} + 1):
    print(f"{n} x {i} = {n * i}")
