# Everything in metres or in kilograms.
factors = {
    "kilometers": 1000, "miles": 1609.344, "meters": 1, "feet": 0.3048, "inches": 0.0254, "centimeters": 0.01,
    "kilograms": 1, "pounds": 0.45359237,
}
value = {{num .value}}
result = value * factors["{{.from}}"] / factors["{{.to}}"]
print(f"{value:g} {{.from}} = {round(result, 4):g} {{.to}}")
