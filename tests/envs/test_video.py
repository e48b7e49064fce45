import gymnasium as gym
import numpy as np
import pytest

from rein.envs import video
from rein.envs.video import VideoWriter, as_frame, render_frame, write_video


def moving_square(count=6, height=33, width=47):
    for index in range(count):
        frame = np.zeros((height, width, 3), np.uint8)
        frame[5:15, index : index + 10] = (255, 0, 0)
        yield frame


def read_mp4(path):
    import imageio_ffmpeg

    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    width, height = meta["size"]
    frames = [np.frombuffer(raw, np.uint8).reshape(height, width, 3) for raw in reader]
    return meta, frames


def test_mp4_holds_all_frames_padded_to_even_size(tmp_path):
    path = write_video(tmp_path / "deep" / "square.mp4", moving_square(), fps=10)
    meta, frames = read_mp4(path)
    assert meta["size"] == (48, 34)
    assert meta["fps"] == 10
    assert len(frames) == 6
    assert frames[0][10, 5, 0] > 150
    assert frames[0][10, 30, 0] < 60
    assert [entry.name for entry in path.parent.iterdir()] == ["square.mp4"]


def test_gif_holds_all_frames_and_their_pace(tmp_path):
    from PIL import Image

    path = write_video(tmp_path / "square.gif", moving_square(), fps=20)
    with Image.open(path) as image:
        assert image.n_frames == 6
        assert image.size == (47, 33)
        assert image.info["duration"] == 50


def test_overwrites_only_when_complete(tmp_path):
    path = tmp_path / "square.gif"
    path.write_bytes(b"old")

    def failing():
        yield next(moving_square())
        raise RuntimeError("the world broke")

    with pytest.raises(RuntimeError, match="broke"):
        write_video(path, failing())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_video(path, moving_square())
    assert path.read_bytes()[:3] == b"GIF"


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_no_frames_is_an_error_that_leaves_nothing(tmp_path, name):
    with pytest.raises(ValueError, match="no frames"):
        write_video(tmp_path / name, [])
    assert list(tmp_path.iterdir()) == []


def test_frames_of_different_sizes_are_refused(tmp_path):
    frames = [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 6, 3), np.uint8)]
    with pytest.raises(ValueError, match=r"\(4, 6\)"):
        write_video(tmp_path / "a.mp4", frames)
    assert list(tmp_path.iterdir()) == []


def test_bad_names_rates_and_frames_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.mp4 or \.gif"):
        write_video(tmp_path / "a.avi", moving_square())
    with pytest.raises(ValueError, match="fps"):
        write_video(tmp_path / "a.gif", moving_square(), fps=0)
    with pytest.raises(ValueError, match="float64"):
        as_frame(np.zeros((4, 4, 3)))
    with pytest.raises(ValueError, match="shape"):
        as_frame(np.zeros((4, 4, 2), np.uint8))
    assert list(tmp_path.iterdir()) == []


def test_closed_writer_refuses_frames(tmp_path):
    with VideoWriter(tmp_path / "a.gif") as writer:
        writer.append(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(ValueError, match="closed"):
        writer.append(np.zeros((4, 4, 3), np.uint8))
    writer.close()


def test_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"rein-rl\[video\]"):
        write_video(tmp_path / "a.mp4", moving_square())


def test_gray_and_alpha_become_three_channels():
    gray = np.full((2, 3), 7, np.uint8)
    assert as_frame(gray).tolist() == np.full((2, 3, 3), 7).tolist()
    assert as_frame(np.zeros((2, 3, 4), np.uint8)).shape == (2, 3, 3)


def test_rendering_without_render_mode_says_how_to_make_the_world():
    env = gym.make("rein.envs.toy:rein/Chain-v0")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="render_mode='rgb_array'"):
        render_frame(env)
