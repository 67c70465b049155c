import unittest
from decimal import Decimal

from inventory import Warehouse
from inventory.pricing import discount, line_total, round_money, split_evenly
from inventory.report import movements, table, valuation


class PricingTest(unittest.TestCase):
    def test_round(self):
        self.assertEqual(round_money(Decimal("1.005")), Decimal("1.01"))

    def test_discount(self):
        self.assertEqual(discount(1), 0)
        self.assertEqual(discount(9), 0)
        self.assertEqual(discount(10), Decimal("0.05"))
        self.assertEqual(discount(49), Decimal("0.05"))
        self.assertEqual(discount(50), Decimal("0.10"))

    def test_line_total(self):
        self.assertEqual(line_total(Decimal("2.50"), 3), Decimal("9.00"))
        self.assertEqual(line_total(Decimal("1.00"), 10), Decimal("11.40"))

    def test_split(self):
        shares = split_evenly(Decimal("10.00"), 3)
        self.assertEqual(shares, [Decimal("3.34"), Decimal("3.33"), Decimal("3.33")])
        self.assertEqual(split_evenly(Decimal("5.00"), 1), [Decimal("5.00")])
        with self.assertRaises(ValueError):
            split_evenly(Decimal("1"), 0)


class ReportTest(unittest.TestCase):
    def test_table(self):
        self.assertEqual(table([("bolt", 3), ("a very long name", 12)], width=6), "bolt..        3\na very       12")
        self.assertEqual(table([("x", 1)]), "x...........        1")

    def test_valuation(self):
        w = Warehouse()
        w.receive("bolt", 10)
        w.receive("nut", 2)
        w.receive("mystery", 1)
        total, unknown = valuation(w, {"bolt": Decimal("1.00"), "nut": Decimal("0.50")})
        self.assertEqual(total, Decimal("10.50"))
        self.assertEqual(unknown, ["mystery"])

    def test_movements(self):
        log = [("in", "a", 5), ("out", "a", 2), ("in", "b", 1)]
        self.assertEqual(movements(log), {"in": 6, "out": 2, "net": 4})
        self.assertEqual(movements(log, "a"), {"in": 5, "out": 2, "net": 3})
