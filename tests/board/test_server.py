"""What the board answers, and what it refuses."""

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import rein.board
from rein.board import BoardServer, Shelf
from rein.board.curves import thin
from rein.cli import main
from rein.training.run_directory import RunDirectoryError
from tests.board.example_runs import HOSTILE, write_run


class Client:
    def __init__(self, server: BoardServer) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        self.connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            self.connection.putheader(name.replace("_", "-"), value)
        self.connection.endheaders()
        answer = self.connection.getresponse()
        return answer, answer.read()

    def json(self, path: str) -> Any:
        answer, body = self.ask(path)
        assert answer.status == 200, body
        assert answer.headers["Content-Type"].startswith("application/json")
        return json.loads(body)


@pytest.fixture
def client(board: BoardServer) -> Client:
    return Client(board)


def ids(client: Client) -> dict[str, str]:
    return {run["place"]: run["id"] for run in client.json("/api/runs")["runs"]}


class TestAnswers:
    def test_the_page_and_its_parts(self, client: Client) -> None:
        answer, body = client.ask("/")
        assert answer.status == 200
        assert b"Rein board" in body
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http:" not in policy
        for name in ("main.js", "style.css", "chart.js", "icon.svg"):
            answer, body = client.ask(f"/page/{name}")
            assert answer.status == 200, name
            assert body

    def test_the_page_never_makes_markup_of_texts(self) -> None:
        folder = Path(rein.board.__file__).parent / "page"
        scripts = {path.name: path.read_text() for path in folder.glob("*.js")}
        assert len(scripts) > 5
        for name, text in scripts.items():
            for word in (
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "http:/" + "/",
            ):
                assert word not in text.replace('"http://www.w3.org/2000/svg"', ""), f"{name} has {word}"

    def test_runs(self, client: Client) -> None:
        runs = {run["place"]: run for run in client.json("/api/runs")["runs"]}
        assert len(runs) == 4
        task = runs["task-1"]
        assert (task["name"], task["seed"], task["status"], task["env_steps"]) == ("task", 1, "finished", 2000)
        assert (task["score"], task["interval"], task["fraction"]) == (11.0, [9.0, 11.0], 1.0)
        assert runs["deep/other"]["env"] == "Pendulum-v1"

    def test_seeds_are_grouped_with_a_band(self, client: Client) -> None:
        curves = client.json("/api/curves?metric=Metrics/AverageReturn")
        assert curves["title"] == "Training return"
        band = next(one for one in curves["bands"] if one["whole_label"] == "task")
        assert len(band["runs"]) == len(band["seeds"]) == 2
        assert band["x"][-1] == 2000.0
        assert (band["mean"][-1], band["low"][-1], band["high"][-1]) == (19.5, 19.0, 20.0)
        apart = client.json("/api/curves?metric=Metrics/AverageReturn&group=0")
        assert {"task-0", "task-1", "deep/other"} < {one["whole_label"] for one in apart["bands"]}

    def test_chosen_runs_and_axes(self, client: Client) -> None:
        one = ids(client)["task-0"]
        curves = client.json(f"/api/curves?metric=Metrics/AverageReturn&runs={one}&x=iterations&smooth=2")
        assert [band["runs"] for band in curves["bands"]] == [[one]]
        assert curves["bands"][0]["x"][:3] == [0.0, 1.0, 2.0]
        assert curves["bands"][0]["mean"][:3] == [0.0, 0.5, 1.5]
        assert client.ask("/api/curves?x=furlongs")[0].status == 400
        assert client.ask("/api/curves?smooth=0")[0].status == 400
        assert client.ask("/api/curves?points=many")[0].status == 400

    def test_long_series_are_thinned_and_keep_their_ends_and_extremes(self, client: Client, tmp_path: Path) -> None:
        write_run(tmp_path / "runs" / "long", 0, points=5_000, name="long")
        place = Shelf([tmp_path / "runs"]).runs()[0]
        assert place.place == "long"
        x, y = np.arange(100_000.0), np.random.default_rng(0).normal(size=100_000)
        y[77_777] = 50.0
        thin_x, thin_y = thin(x, y, 1_000)
        assert 900 < len(thin_x) <= 1_000
        assert (thin_x[0], thin_x[-1], thin_y.max(), thin_y.min()) == (0.0, 99_999.0, 50.0, y.min())
        assert (np.diff(thin_x) > 0).all()
        np.testing.assert_array_equal(y[thin_x.astype(int)], thin_y)

    def test_a_run_with_everything(self, client: Client) -> None:
        run = client.json(f"/api/run/{ids(client)['task-1']}")
        settings = {one["short"]: one["value"] for one in run["settings"]}
        assert settings == {"learning_rate": "0.002", "Loss.gamma": "0.99", "Loss.layers": "(64, 64)"}
        assert run["evaluations"][0]["returns"] == [9.0, 10.0, 11.0]
        assert run["timing"]["sections"]["learn"]["calls"] == 2
        assert run["media"] == []

    def test_settings_side_by_side(self, client: Client) -> None:
        known = ids(client)
        compared = client.json(f"/api/compare?runs={known['task-0']},{known['task-1']}")
        differing = {row["short"]: row["values"] for row in compared["settings"] if row["differs"]}
        assert differing == {"learning_rate": ["0.001", "0.002"]}
        assert len(compared["settings"]) == 3

    def test_the_evidence_of_the_zoo(self, client: Client) -> None:
        entries = {one["name"]: one for one in client.json("/api/zoo")}
        assert entries["ppo_cartpole"]["record"]["met"] is True
        entry = client.json("/api/zoo/ppo_cartpole")
        assert entry["bars"][0]["value"] == entry["bar"]
        assert len(entry["record"]["seeds"][0]["x"]) == len(entry["record"]["seeds"][0]["y"]) > 1
        assert client.ask("/api/zoo/nothing")[0].status == 404

    def test_new_runs_and_new_values_appear(self, board: BoardServer, client: Client, tmp_path: Path) -> None:
        run = tmp_path / "runs" / "task-0"
        address = f"/api/curves?metric=Metrics/AverageReturn&runs={ids(client)['task-0']}"
        assert client.json(address)["bands"][0]["mean"][-1] == 19.0
        with (run / "summaries" / "scalars.jsonl").open("a") as file:
            file.write('{"step": 20, "name": "Metrics/EnvironmentSteps", "value": 2100.0, "time": 1.0}\n')
            file.write('{"step": 20, "name": "Metrics/AverageReturn", "value": 77.0, "time": 1.0}\n')
        band = client.json(address)["bands"][0]
        assert (band["x"][-1], band["mean"][-1]) == (2100.0, 77.0)
        write_run(tmp_path / "runs" / "late", 9)
        board.shelf._scanned_at = -np.inf
        assert "late" in ids(client)

    def test_damaged_runs_do_not_hide_the_others(self, client: Client, board: BoardServer, tmp_path: Path) -> None:
        (tmp_path / "runs" / "task-0" / "run.json").write_text("{")
        (tmp_path / "runs" / "task-1" / "agent.json").write_text("[" * 10_000)
        (tmp_path / "runs" / "task-1" / "evaluations.jsonl").write_text("{\n[]\n3\n")
        runs = {run["place"]: run for run in client.json("/api/runs")["runs"]}
        assert runs["task-0"]["status"] == "damaged"
        assert client.json(f"/api/run/{runs['task-0']['id']}")["status"] == "damaged"
        assert client.json(f"/api/run/{runs['task-1']['id']}")["agent"] is None
        assert client.json("/api/curves?metric=Metrics/AverageReturn")["bands"]

    @pytest.mark.parametrize("value", [{"a": [1]}, [None], "text", -1, 1e999, True, None])
    def test_values_of_other_types_do_not_hide_the_others(self, client: Client, tmp_path: Path, value: Any) -> None:
        odd = tmp_path / "runs" / "task-0"
        record = json.loads((odd / "run.json").read_text())
        evaluation = json.loads((odd / "evaluations.jsonl").read_text())
        (odd / "run.json").write_text(
            json.dumps(dict.fromkeys([*record, "bars", "overrides", "parts", "num_env_steps"], value))
        )
        (odd / "evaluations.jsonl").write_text(json.dumps(dict.fromkeys(evaluation, value)) + "\n")
        for name in ("agent.json", "timing.json"):
            (odd / name).write_text(json.dumps(value))
        runs = {run["place"]: run for run in client.json("/api/runs")["runs"]}
        assert runs["task-1"]["score"] == 11.0
        client.json(f"/api/run/{runs['task-0']['id']}")
        for metric in ("Metrics/AverageReturn", "Evaluation/AverageReturn"):
            bands = client.json(f"/api/curves?metric={metric}")["bands"]
            assert metric.startswith("Evaluation") or any(runs["task-1"]["id"] in band["runs"] for band in bands)

    def test_what_has_not_changed_is_not_sent_again(self, client: Client) -> None:
        answer, _ = client.ask("/api/metrics")
        again, body = client.ask("/api/metrics", If_None_Match=answer.headers["ETag"])
        assert (again.status, body) == (304, b"")

    def test_parts_of_a_video(self, client: Client, tmp_path: Path) -> None:
        videos = tmp_path / "runs" / "task-0" / "videos"
        videos.mkdir()
        (videos / "policy 1.mp4").write_bytes(bytes(range(100)))
        address = f"/files/{ids(client)['task-0']}/videos/policy%201.mp4"
        answer, body = client.ask(address)
        assert (answer.status, answer.headers["Content-Type"], body) == (200, "video/mp4", bytes(range(100)))
        for header, start, end in (("bytes=10-19", 10, 20), ("bytes=90-", 90, 100), ("bytes=-5", 95, 100)):
            answer, body = client.ask(address, Range=header)
            assert (answer.status, body) == (206, bytes(range(start, end)))
            assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/100"
        assert client.ask(address, Range="bytes=5-2")[0].status == 200
        assert "sandbox" in answer.headers["Content-Security-Policy"]


class TestRefusals:
    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "", "127.0.0.1"]
    )
    def test_a_foreign_host(self, board: BoardServer, client: Client, host: str) -> None:
        answer, body = client.ask("/api/runs", Host=host.format(port=board.server_port))
        assert answer.status == 403
        assert b"task" not in body

    def test_two_hosts(self, board: BoardServer) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", board.server_port)
        connection.putrequest("GET", "/api/runs")
        connection.putheader("Host", "evil.example")
        connection.endheaders()
        assert connection.getresponse().status == 403

    @pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
    def test_names_of_this_machine_are_taken(self, board: BoardServer, client: Client, host: str) -> None:
        assert client.ask("/api/runs", Host=host.format(port=board.server_port))[0].status == 200

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "MOVE"])
    def test_methods_that_write(self, board: BoardServer, method: str) -> None:
        answer, _ = Client(board).ask("/api/runs", method)
        assert answer.status == 405

    def test_it_listens_to_this_machine_only(self, board: BoardServer) -> None:
        assert board.server_address[0] == "127.0.0.1"

    def test_a_thousand_fuzzed_paths_and_none_escapes(self, board: BoardServer, tmp_path: Path) -> None:
        run = tmp_path / "runs" / "task-0"
        (run / "videos").mkdir()
        (run / "videos" / "out.mp4").symlink_to(tmp_path / "secret.mp4")
        (run / "plans").symlink_to(tmp_path)
        (run / "log.txt").symlink_to(tmp_path / "secret.txt")
        (run / "summaries" / "scalars.jsonl").unlink()
        (run / "summaries" / "scalars.jsonl").symlink_to(tmp_path / "secret.txt")
        (tmp_path / "runs" / "away").symlink_to(tmp_path)
        client = Client(board)
        known = list(ids(client).values())
        rng = random.Random(0)
        pieces = [
            "..",
            ".",
            "",
            "%2e%2e",
            "..%2f..",
            "%2e%2e%2f",
            "..\\..",
            "%5c..",
            "%00",
            "%252e%252e",
            "..%c0%af",
            "\xff",
        ]
        pieces += ["secret.txt", "secret.mp4", "out.mp4", "run.json", "index.html", "etc", "passwd", "~", "away"]
        pieces += ["videos", "plans", "charts", "files", "api", "run", "page", "runs", "zoo", *known]
        pieces += [str(tmp_path), quote(str(tmp_path), safe="")]
        starts = ["/", "//", "/files/", f"/files/{known[0]}/", "/page/", "/api/run/", "/api/zoo/"]
        starts += [f"/files/{id_}/{folder}/" for id_ in known for folder in ("videos", "plans", "charts")]
        for _ in range(1_000):
            path = rng.choice(starts) + "/".join(rng.choices(pieces, k=rng.randint(1, 6)))
            answer, body = client.ask(quote(path, safe="/%:?&=\\~.", encoding="latin-1"))
            assert b"the secret" not in body, path
            assert answer.status in (200, 400, 404), path
        for path in (f"/files/{id_}/videos/out.mp4" for id_ in known):
            assert client.ask(path)[0].status == 404
        assert client.ask(f"/files/{known[0]}/plans/secret.mp4")[0].status == 404

    def test_hostile_texts_stay_texts(self, client: Client) -> None:
        known = {run["name"]: run["id"] for run in client.json("/api/runs")["runs"]}
        run = client.json(f"/api/run/{known[HOSTILE]}")
        assert run["record"]["command"] == HOSTILE
        assert run["settings"][0]["name"] == HOSTILE
        media = {one["folder"]: one["name"] for one in run["media"]}
        answer, _ = client.ask(f"/files/{known[HOSTILE]}/plans/{media['plans']}")
        assert answer.headers["Content-Type"] == "image/svg+xml"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]

    def test_nothing_is_written(self, client: Client, tmp_path: Path) -> None:
        def state() -> dict[str, tuple[int, int]]:
            return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}

        before = state()
        for id_ in ids(client).values():
            client.json(f"/api/run/{id_}")
        client.json("/api/curves?metric=Metrics/AverageReturn")
        assert state() == before


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class TestCommand:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "there is no folder runs here"),
            (["nowhere"], "there is no folder nowhere"),
            (["secret.txt"], "there is no folder secret.txt"),
            ([".", "--port", "99999"], "--port 99999 is no port"),
            ([".", "--port", "TAKEN"], "cannot be used"),
        ],
    )
    def test_wrong_input_is_one_line(
        self, words: list[str], message: str, board: BoardServer, tmp_path: Path, capsys: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.chdir(tmp_path if words else tmp_path / "runs")
        assert main(["board", *(word.replace("TAKEN", str(board.server_port)) for word in words)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

    def test_it_prints_its_address_and_ends_with_an_interrupt(self, board: BoardServer, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "rein.cli", "board", str(tmp_path / "runs"), "--port", "0"]
        # Whoever runs the tests in the background may have told them to ignore interrupts, which processes inherit.
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.match(r"http://127\.0\.0\.1:(\d+)/ shows 4 runs of ", line)
            assert found is not None, line
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0

    def test_a_folder_without_runs_is_shown(self, tmp_path: Path) -> None:
        assert Shelf([tmp_path]).runs() == []
        with pytest.raises(RunDirectoryError, match="there is no folder"):
            Shelf([tmp_path / "none"])
        assert os.listdir(tmp_path) == []


def test_what_helpers_read_is_what_is_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        write_run(tmp_path / f"run-{seed}", seed=seed)
    monkeypatch.setattr(rein.board.server, "_BYTES_PER_HELPER", 1)
    monkeypatch.setattr(rein.board.server, "usable_cores", lambda: 3)
    plain, helped = Shelf([tmp_path]), Shelf([tmp_path])
    server = BoardServer(helped)
    try:
        server.warm_up().join()
    finally:
        server.server_close()
    for ours, theirs in zip(plain.runs(), helped.runs(), strict=True):
        assert theirs.bytes_unread == 0
        assert list(ours.series()) == list(theirs.series())
        for name, one in ours.series().items():
            assert all(np.array_equal(a, b) for a, b in zip(one, theirs.series()[name], strict=True))
