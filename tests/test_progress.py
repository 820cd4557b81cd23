import pytest

from elmo_tf import progress as module
from elmo_tf.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """Advances the time: `clock(seconds)`."""
    now = [100.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_lines_are_printed_at_intervals_and_at_the_end(clock, capsys):
    with progress(400, "reading", "tokens") as meter:
        for _ in range(4):
            clock(6.0)
            meter.update(100)

    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "reading: 200/400 (50%)",
        "reading: 400/400 (100%)",
    ]
    assert "16.67 tokens/s" in lines[0]
    assert "00:12 elapsed" in lines[0]
    assert "00:12 left" in lines[0]


@pytest.mark.parametrize(
    ("total", "initial", "line"),
    [
        (None, 0, "reading: 20.0, 2.00 tokens/s, 00:10 elapsed"),
        # Initial units count for the total, but not for the rate.
        (100, 60, "reading: 80/100 (80%), 2.00 tokens/s, 00:10 elapsed, 00:10 left"),
    ],
)
def test_a_line_depends_on_the_total_and_the_initial_units(clock, capsys, total, initial, line):
    with progress(total, "reading", "tokens", initial=initial) as meter:
        clock(10.0)
        meter.update(20)
    assert capsys.readouterr().err == f"{line}\n"


def test_a_terminal_shows_a_progress_bar(capsys, monkeypatch):
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True, raising=False)
    with progress(4, "training", "steps") as meter:
        meter.note("loss 1.5")
        meter.update(4)
    bar = capsys.readouterr().err
    assert "\r" in bar
    assert "training: 100%" in bar
    assert "4/4" in bar
    assert "loss 1.5" in bar
