from wrap import wrap


def words(text):
    result = []
    for raw in text.lower().split():
        word = raw.strip(".,;:!?\"'()")
        if word:
            result.append(word)
    return result


def frequencies(text, least=1):
    table = {}
    for word in words(text):
        table[word] = table.get(word, 0) + 1
    pairs = [(word, n) for word, n in table.items() if n >= least]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    return pairs


def longest(text):
    best = ""
    for word in words(text):
        if len(word) > len(best):
            best = word
    return best


def pages(text, width, height):
    lines = wrap(text, width)
    result = []
    for start in range(0, len(lines), height):
        result.append(lines[start:start + height])
    return result


def is_palindrome(text):
    letters = [c for c in text.lower() if c.isalnum()]
    return letters == letters[::-1]
