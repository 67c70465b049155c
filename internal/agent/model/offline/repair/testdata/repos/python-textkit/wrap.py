def wrap(text, width):
    """Break text into lines of at most width characters."""
    lines = []
    current = ""
    for word in text.split():
        if not current:
            current = word
        elif len(current) + 1 + len(word) <= width:
            current += " " + word
        else:
            lines.append(current)
            current = word
    if current:
        lines.append(current)
    return lines


def center(line, width, fill=" "):
    gap = width - len(line)
    if gap <= 0:
        return line
    left = gap // 2
    return fill * left + line + fill * (gap - left)


def indent(lines, by=4):
    return [" " * by + line for line in lines]
