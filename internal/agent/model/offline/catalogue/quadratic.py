import cmath

a, b, c = {{num .a}}, {{num .b}}, {{num .c}}
root = cmath.sqrt(b * b - 4 * a * c)
for x in ((-b + root) / (2 * a), (-b - root) / (2 * a)):
    if x.imag == 0:
        print(f"x = {x.real:.6g}")
    else:
        print(f"x = {x.real:.6g} {'+' if x.imag > 0 else '-'} {abs(x.imag):.6g}i")
