import unittest

from grades.report import grade, summary
from grades.statistics import mean, median


class StatisticsTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([60, 70, 80]), 70)

    def test_median_of_an_odd_number(self):
        self.assertEqual(median([90, 50, 70]), 70)

    def test_median_of_an_even_number(self):
        self.assertEqual(median([90, 50, 70, 80]), 75)
        self.assertEqual(median([40, 10, 20, 30, 60, 50]), 35)


class ReportTest(unittest.TestCase):
    def test_grade(self):
        self.assertEqual([grade(n) for n in (95, 90, 89, 60, 59)], ["A", "A", "B", "C", "D"])

    def test_summary(self):
        self.assertEqual(summary([60, 70, 80]), "mean 70.0, median 70.0, spread 20")


if __name__ == "__main__":
    unittest.main()
