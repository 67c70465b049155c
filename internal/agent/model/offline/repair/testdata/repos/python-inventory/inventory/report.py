from .pricing import line_total


def table(rows, width=12):
    lines = []
    for name, value in rows:
        label = name[:width].ljust(width, ".")
        lines.append(f"{label} {value:>8}")
    return "\n".join(lines)


def valuation(warehouse, prices):
    total = 0
    unknown = []
    for sku, count in sorted(warehouse.levels.items()):
        if sku not in prices:
            unknown.append(sku)
            continue
        total += line_total(prices[sku], count, tax=0)
    return total, unknown


def movements(log, sku=None):
    result = {"in": 0, "out": 0}
    for kind, name, amount in log:
        if sku is None or name == sku:
            result[kind] += amount
    result["net"] = result["in"] - result["out"]
    return result
