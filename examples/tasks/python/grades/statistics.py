"""Figures over a list of points."""


def mean(points):
    return sum(points) / len(points)


def median(points):
    ordered = sorted(points)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle] + ordered[middle + 1]) / 2


def spread(points):
    return max(points) - min(points)
