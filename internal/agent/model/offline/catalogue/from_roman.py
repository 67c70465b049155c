def from_roman(numeral):
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    for letter, following in zip(numeral, numeral[1:] + " "):
        value = values[letter]
        total += -value if values.get(following, 0) > value else value
    return total


numeral = {{str .numeral}}
print(f"{numeral} = {from_roman(numeral)}")
