import re

FIELD = re.compile(r"\{(\w+)(?:\|(\w+))?\}")


def shout(value):
    return value.upper() + "!"


def title(value):
    return " ".join(part[:1].upper() + part[1:] for part in value.split(" "))


FILTERS = {"shout": shout, "title": title, "len": lambda value: str(len(value))}


def render(source, values, default=""):
    def replace(match):
        name, filter_name = match.group(1), match.group(2)
        value = str(values.get(name, default))
        if filter_name:
            value = FILTERS[filter_name](value)
        return value

    return FIELD.sub(replace, source)


def fields(source):
    seen = []
    for name, _ in FIELD.findall(source):
        if name not in seen:
            seen.append(name)
    return seen
