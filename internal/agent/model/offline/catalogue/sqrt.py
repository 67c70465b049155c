import math

x = {{num .x}}
print(f"Square root of {x}: {math.sqrt(x):.10g}")
