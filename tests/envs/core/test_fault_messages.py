import logging

from rein.envs.faults import Fault, FaultLog, FaultPolicy


def test_the_same_fault_is_shown_once_and_then_counted_ever_more_seldom(caplog):
    log = FaultLog(FaultPolicy(max_restarts=1000), 4)
    with caplog.at_level(logging.WARNING):
        for step in range(80):
            log.add(Fault(step % 4, step, "raised", f"{step} steps into its episode: ValueError: odd\nTraceback ..."))
        log.add(Fault(0, 90, "raised", "1 steps into its episode: KeyError: other\nTraceback ..."))
    texts = [record.getMessage() for record in caplog.records]
    assert sum("Traceback" in text for text in texts) == 2
    again = [text for text in texts if "times by now" in text]
    assert [text.split("again, ")[1].split(" ")[0] for text in again] == ["2", "3", "5", "9", "17", "33", "65"]
    assert all("\n" not in text for text in again)
    assert log.counts.sum() == 81
