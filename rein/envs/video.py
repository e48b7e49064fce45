"""Frames of worlds, and videos of them: mp4 through ffmpeg, gif through Pillow."""

import os
import tempfile
from collections.abc import Generator, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from rein.envs.drawing import Frame

__all__ = ["VideoWriter", "render_frame", "write_video"]

_PACKAGES = {".mp4": "imageio_ffmpeg", ".gif": "PIL"}


def render_frame(env: gym.Env[Any, Any]) -> Frame:
    """Returns what a world looks like now, as uint8 [height, width, 3].

    Args:
        env: made with `render_mode="rgb_array"`, and reset.
    """
    frame = env.render()
    if isinstance(frame, list):
        frame = frame[-1] if frame else None
    if frame is None:
        raise ValueError(
            f"{env} gave no frame (its render_mode is {env.render_mode!r}): make it with render_mode='rgb_array'."
        )
    return as_frame(frame)


def as_frame(image: ArrayLike) -> Frame:
    """Returns an image as uint8 [height, width, 3]; gray images get three equal channels, alpha is dropped."""
    array = np.asarray(image)
    if array.dtype != np.uint8:
        raise ValueError(f"A frame must be uint8; got {array.dtype}. Scale to 0..255 first.")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise ValueError(f"A frame must be [height, width, 3]; got shape {array.shape}.")
    if array.shape[2] == 1:
        array = array.repeat(3, axis=2)
    return np.ascontiguousarray(array[:, :, :3])


def write_video(path: str | os.PathLike[str], frames: Iterable[ArrayLike], fps: float = 30.0) -> Path:
    """Writes frames to a video and returns its path; the file appears only when it is complete.

    Args:
        path: ends in .mp4 or .gif.
        frames: uint8 images [height, width, 3], all of one size; at least one.
        fps: frames per second.
    """
    with VideoWriter(path, fps) as writer:
        for frame in frames:
            writer.append(frame)
    return writer.path


class VideoWriter:
    """Writes a video frame by frame; a context manager.

    The video is written beside its place and moved there by `close()`; if the block raises, nothing is left.

    Args:
        path: ends in .mp4 or .gif; the folder is created.
        fps: frames per second.
    """

    def __init__(self, path: str | os.PathLike[str], fps: float = 30.0) -> None:
        self.path = Path(path)
        suffix = self.path.suffix.lower()
        if suffix not in _PACKAGES:
            raise ValueError(f"A video's name must end in .mp4 or .gif; got {os.fspath(path)!r}.")
        if not fps > 0:
            raise ValueError(f"fps must be positive; got {fps}.")
        if find_spec(_PACKAGES[suffix]) is None:
            raise ImportError(f"Writing {suffix} needs {_PACKAGES[suffix]}: pip install 'rein-rl[video]'")
        self._fps = fps
        self._suffix = suffix
        self._size: tuple[int, int] | None = None
        self._images: list[Any] = []
        self._ffmpeg: Generator[None, bytes | None, None] | None = None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix, f".{self.path.stem}-", self.path.parent)
        os.close(handle)
        self._partial: Path | None = Path(name)

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def append(self, frame: ArrayLike) -> None:
        """Adds a uint8 [height, width, 3] frame."""
        if self._partial is None:
            raise ValueError(f"The video {self.path} is already closed.")
        image = as_frame(frame)
        if self._size is None:
            self._size = (image.shape[0], image.shape[1])
        if image.shape[:2] != self._size:
            raise ValueError(
                f"All frames of a video have one size: the first was {self._size}, this is {image.shape[:2]}."
            )
        if self._suffix == ".gif":
            from PIL import Image

            self._images.append(Image.fromarray(image))
        else:
            self._encoder().send(_even(image).tobytes())

    def close(self) -> None:
        """Completes the video and moves it to its path."""
        if self._partial is None:
            return
        if self._size is None:
            self.discard()
            raise ValueError(f"The video {self.path} has no frames.")
        try:
            self._complete(self._partial)
            umask = os.umask(0)
            os.umask(umask)
            self._partial.chmod(0o666 & ~umask)
            self._partial.replace(self.path)
            self._partial = None
        finally:
            self.discard()

    def discard(self) -> None:
        """Gives the video up; leaves no file. Does nothing after `close`."""
        if self._ffmpeg is not None:
            self._ffmpeg.close()
            self._ffmpeg = None
        self._images = []
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)
            self._partial = None

    def _complete(self, partial: Path) -> None:
        if self._ffmpeg is not None:
            self._ffmpeg.close()
            self._ffmpeg = None
            return
        first, *rest = self._images
        duration = 1000.0 / self._fps
        first.save(partial, save_all=True, append_images=rest, duration=duration, loop=0)

    def _encoder(self) -> Generator[None, bytes | None, None]:
        if self._ffmpeg is None:
            import imageio_ffmpeg  # type: ignore[import-untyped]

            assert self._size is not None
            height, width = (size + size % 2 for size in self._size)
            self._ffmpeg = imageio_ffmpeg.write_frames(
                str(self._partial), (width, height), fps=self._fps, quality=7, macro_block_size=2
            )
            self._ffmpeg.send(None)
        return self._ffmpeg


def _even(frame: Frame) -> Frame:
    """Returns the frame with even height and width, which H.264 needs, by repeating the last row and column."""
    height, width = frame.shape[:2]
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
