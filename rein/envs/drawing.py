"""Frames drawn with numpy alone, so that toy worlds and boards render anywhere, headless."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
Color = tuple[int, int, int]

WHITE: Color = (245, 245, 245)
BLACK: Color = (25, 25, 25)
GRAY: Color = (150, 150, 150)
BLUE: Color = (66, 110, 180)
RED: Color = (200, 70, 60)
GREEN: Color = (70, 150, 90)
YELLOW: Color = (235, 190, 60)
WOOD: Color = (214, 170, 104)
PALETTE: tuple[Color, ...] = (BLUE, RED, GREEN, YELLOW, GRAY, BLACK)


def canvas(height: int, width: int, color: Color = WHITE) -> Frame:
    """Returns a [height, width, 3] frame of one color."""
    frame = np.empty((height, width, 3), np.uint8)
    frame[:] = color
    return frame


def fill_box(frame: Frame, top: float, left: float, height: float, width: float, color: Color) -> None:
    """Fills a rectangle; coordinates are fractions of the frame, (0, 0) is the top left corner."""
    rows, columns = frame.shape[:2]
    first_row, last_row = round(top * rows), round((top + height) * rows)
    first_column, last_column = round(left * columns), round((left + width) * columns)
    frame[max(first_row, 0) : max(last_row, 0), max(first_column, 0) : max(last_column, 0)] = color


def fill_disc(frame: Frame, row: float, column: float, radius: float, color: Color) -> None:
    """Fills a disc; center and radius are fractions of the frame's height and width."""
    rows, columns = frame.shape[:2]
    y, x = np.ogrid[:rows, :columns]
    inside = ((y + 0.5) / rows - row) ** 2 + ((x + 0.5) / columns - column) ** 2 <= radius**2
    frame[inside] = color


def draw_line(
    frame: Frame,
    start: Sequence[float],
    end: Sequence[float],
    color: Color,
    thickness: int = 2,
) -> None:
    """Draws a segment between two (row, column) points given as fractions of the frame."""
    rows, columns = frame.shape[:2]
    count = 2 * max(rows, columns)
    row = np.linspace(start[0], end[0], count) * rows
    column = np.linspace(start[1], end[1], count) * columns
    for down in range(thickness):
        for right in range(thickness):
            r = np.clip(row.astype(int) + down, 0, rows - 1)
            c = np.clip(column.astype(int) + right, 0, columns - 1)
            frame[r, c] = color


def bar_chart(values: NDArray[np.floating], highlight: int | None, size: int = 128) -> Frame:
    """Returns a [size, size, 3] frame with one bar per value, scaled to the largest magnitude."""
    frame = canvas(size, size)
    values = np.asarray(values, np.float64).ravel()
    scale = max(float(np.abs(values).max(initial=0.0)), 1e-9)
    width = 1.0 / max(len(values), 1)
    for index, value in enumerate(values):
        height = 0.45 * abs(float(value)) / scale
        top = 0.5 - height if value >= 0 else 0.5
        color = RED if index == highlight else BLUE
        fill_box(frame, top, (index + 0.1) * width, height, 0.8 * width, color)
    draw_line(frame, (0.5, 0.0), (0.5, 1.0), BLACK, 1)
    return frame
