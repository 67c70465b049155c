from decimal import Decimal, ROUND_HALF_UP

TIERS = {1: Decimal("0"), 10: Decimal("0.05"), 50: Decimal("0.10")}
CENT = Decimal("0.01")


def round_money(amount):
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def discount(quantity):
    best = Decimal("0")
    for minimum, rate in TIERS.items():
        if quantity >= minimum and rate > best:
            best = rate
    return best


def line_total(price, quantity, tax=Decimal("0.20")):
    net = price * quantity * (1 - discount(quantity))
    return round_money(net * (1 + tax))


def split_evenly(amount, people):
    if people < 1:
        raise ValueError("nobody to pay")
    share = (amount / people).quantize(CENT, rounding="ROUND_DOWN")
    shares = [share] * people
    left = int((amount - share * people) / CENT)
    for i in range(left):
        shares[i] += CENT
    return shares
