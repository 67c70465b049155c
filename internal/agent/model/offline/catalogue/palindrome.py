def is_palindrome(text):
    letters = [c.lower() for c in text if c.isalnum()]
    return letters == letters[::-1]


for text in {{strs .texts}}:
    print(f"{text!r} is {'a' if is_palindrome(text) else 'not a'} palindrome")
