def letters(text):
    return sorted(c for c in text.lower() if c.isalnum())


first, second = {{str .first}}, {{str .second}}
same = letters(first) == letters(second)
print(f"{first!r} and {second!r} are {'anagrams' if same else 'not anagrams'}")
