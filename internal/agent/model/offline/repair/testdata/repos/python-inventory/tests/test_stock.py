import unittest

from inventory import OutOfStock, Warehouse


class WarehouseTest(unittest.TestCase):
    def test_receive_and_total(self):
        w = Warehouse()
        self.assertEqual(w.receive("bolt", 10), 0)
        self.assertEqual(w.receive("nut", 4), 0)
        self.assertEqual(w.receive("nut", 1), 0)
        self.assertEqual(w.total(), 15)
        self.assertEqual(w.levels["nut"], 5)

    def test_receive_over_capacity(self):
        w = Warehouse(capacity=8)
        self.assertEqual(w.receive("bolt", 5), 0)
        self.assertEqual(w.receive("nut", 5), 2)
        self.assertEqual(w.total(), 8)

    def test_receive_rejects_nothing(self):
        with self.assertRaises(ValueError):
            Warehouse().receive("bolt", 0)
        self.assertEqual(Warehouse().receive("bolt", 1), 0)

    def test_default_capacity(self):
        self.assertEqual(Warehouse().receive("bolt", 101), 1)

    def test_ship(self):
        w = Warehouse()
        w.receive("bolt", 6)
        self.assertEqual(w.ship("bolt", 2), 4)
        self.assertEqual(w.ship("bolt", 4), 0)
        self.assertNotIn("bolt", w.levels)
        self.assertEqual(w.log, [("in", "bolt", 6), ("out", "bolt", 2), ("out", "bolt", 4)])

    def test_ship_too_much(self):
        w = Warehouse()
        w.receive("bolt", 2)
        with self.assertRaises(OutOfStock) as caught:
            w.ship("bolt", 5)
        self.assertEqual(caught.exception.missing, 3)
        self.assertEqual(caught.exception.sku, "bolt")
        self.assertEqual(str(caught.exception), "bolt: wanted 5, have 2")

    def test_low(self):
        w = Warehouse()
        w.receive("nut", 5)
        w.receive("bolt", 4)
        w.receive("axle", 1)
        self.assertEqual(w.low(), ["axle", "bolt"])
        self.assertEqual(w.low(threshold=2), ["axle"])
