def merge(intervals):
    result = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            last = result[-1]
            result[-1] = (last[0], max(last[1], end))
        else:
            result.append((start, end))
    return result


def free(busy, day_start, day_end):
    gaps = []
    cursor = day_start
    for start, end in merge(busy):
        if start > cursor:
            gaps.append((cursor, start))
        cursor = max(cursor, end)
    if cursor < day_end:
        gaps.append((cursor, day_end))
    return gaps


def overlap(a, b):
    start = max(a[0], b[0])
    end = min(a[1], b[1])
    return max(0, end - start)
