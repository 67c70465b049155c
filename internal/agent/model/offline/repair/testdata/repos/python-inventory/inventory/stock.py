from collections import defaultdict


class OutOfStock(Exception):
    def __init__(self, sku, wanted, available):
        super().__init__(f"{sku}: wanted {wanted}, have {available}")
        self.sku = sku
        self.missing = wanted - available


class Warehouse:
    def __init__(self, capacity=100):
        self.capacity = capacity
        self.levels = defaultdict(int)
        self.log = []

    def total(self):
        return sum(self.levels.values())

    def receive(self, sku, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        room = self.capacity - self.total()
        taken = min(amount, room)
        self.levels[sku] += taken
        self.log.append(("in", sku, taken))
        return amount - taken

    def ship(self, sku, amount):
        available = self.levels[sku]
        if amount > available:
            raise OutOfStock(sku, amount, available)
        self.levels[sku] -= amount
        if self.levels[sku] == 0:
            del self.levels[sku]
        self.log.append(("out", sku, amount))
        return self.levels.get(sku, 0)

    def low(self, threshold=5):
        names = [sku for sku, n in self.levels.items() if n < threshold]
        return sorted(names)
