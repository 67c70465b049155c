import math
from functools import reduce


def lcm(a, b):
    if a == 0 or b == 0:
        return 0
    return abs(a * b) // math.gcd(a, b)


numbers = {{nums .numbers}}
print(f"lcm of {numbers}: {reduce(lcm, numbers)}")
