base = {{num .base}}
exponent = {{num .exponent}}
print(f"{base} to the power of {exponent} = {base ** exponent}")
