import math
from functools import reduce

numbers = {{nums .numbers}}
print(f"gcd of {numbers}: {reduce(math.gcd, numbers)}")
