def shift_letter(c, shift):
    if "a" <= c <= "z":
        return chr((ord(c) - ord("a") + shift) % 26 + ord("a"))
    if "A" <= c <= "Z":
        return chr((ord(c) - ord("A") + shift) % 26 + ord("A"))
    return c


text = {{str .text}}
shift = {{if eq .mode "decrypt"}}-({{num .shift}}){{else}}{{num .shift}}{{end}}
print("".join(shift_letter(c, shift) for c in text))
