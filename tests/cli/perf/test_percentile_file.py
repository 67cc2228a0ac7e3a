import re
from pathlib import Path

from pulsar_actors.cli.perf.histogram import Histogram
from pulsar_actors.cli.perf.percentile_file import lines, write

# By HdrHistogram 2.2.2 for Java: recordValue(1000), recordValue(2000), outputPercentileDistribution(out, 5, 1000.0).
OF_ONE_AND_TWO_MILLISECONDS = """\
       Value     Percentile TotalCount 1/(1-Percentile)

       1.000 0.000000000000          1           1.00
       1.000 0.100000000000          1           1.11
       1.000 0.200000000000          1           1.25
       1.000 0.300000000000          1           1.43
       1.000 0.400000000000          1           1.67
       1.000 0.500000000000          1           2.00
       2.000 0.550000000000          2           2.22
       2.000 1.000000000000          2
#[Mean    =        1.500, StdDeviation   =        0.500]
#[Max     =        2.000, Total count    =            2]
#[Buckets =            1, SubBuckets     =         2048]
"""


def histogram_of(*times: float) -> Histogram:
    histogram = Histogram()
    for each in times:
        histogram.record(each)
    return histogram


def rows_of(histogram: Histogram) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in lines(histogram) if re.match(r"\s+[0-9]", line)]


def test_it_is_what_hdrhistogram_writes_of_the_same_times(tmp_path: Path) -> None:
    file = tmp_path / "latency.hgrm"
    write(file, histogram_of(0.001, 0.002))
    assert file.read_text() == OF_ONE_AND_TWO_MILLISECONDS


def test_a_row_has_the_time_that_its_share_does_not_exceed() -> None:
    times = [number / 1e3 for number in range(1, 1001)]
    rows = rows_of(histogram_of(*times))
    for milliseconds, share, count, *_ in rows:
        assert count >= share * 1000
        assert abs(milliseconds - count) <= 1


def test_the_closer_to_the_longest_the_closer_the_rows() -> None:
    shares = [row[1] for row in rows_of(histogram_of(*(number / 1e3 for number in range(1, 10_001))))]
    assert shares == sorted(set(shares))
    assert [sum(low <= share < high for share in shares) for low, high in ((0, 0.5), (0.5, 0.75), (0.75, 0.875))] == [
        5,
        5,
        5,
    ]


def test_without_a_time_there_is_no_row() -> None:
    assert rows_of(Histogram()) == []
    assert "Total count    =            0" in "".join(lines(Histogram()))
